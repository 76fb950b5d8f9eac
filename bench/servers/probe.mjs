/**
 * Loaded into the measured service (`node --expose-gc --import`): reports what the benchmark cannot see from outside.
 * It does nothing unless asked, and the program does not know about it.
 */
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const inspector = new Session();

/** Milliseconds between checks of the event loop; shorter delays are not noticed. */
const LOOP_RESOLUTION_MS = 5;
const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });

const RESPONSES = {
  /** The delay of the event loop since the last question, in milliseconds. */
  loopDelay() {
    const delay = { p99: loop.percentile(99) / 1e6 - LOOP_RESOLUTION_MS, max: loop.max / 1e6 - LOOP_RESOLUTION_MS };
    loop.enable();
    loop.reset();
    return delay;
  },
  /** Bytes that live objects take. */
  memory() {
    globalThis.gc();
    globalThis.gc();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  },
  async startProfile() {
    inspector.connect();
    await inspector.post('Profiler.enable');
    await inspector.post('Profiler.start');
  },
  /** Writes the CPU profile since then. */
  async stopProfile(file) {
    const { profile } = await inspector.post('Profiler.stop');
    inspector.disconnect();
    writeFileSync(file, JSON.stringify(profile));
  },
};

if (isMainThread && process.channel !== undefined) {
  process.on('message', async ({ question, argument }) =>
    process.send({ response: await RESPONSES[question](argument) }),
  );
  // The channel must not keep the service running.
  process.channel.unref();
}
