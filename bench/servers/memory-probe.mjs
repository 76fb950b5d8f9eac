/**
 * Loaded into the measured service (`node --expose-gc --import`): on a message from the benchmark it collects garbage
 * and tells what is left, in bytes. Otherwise it does nothing.
 */
import { isMainThread } from 'node:worker_threads';

if (isMainThread && process.channel !== undefined) {
  process.on('message', () => {
    globalThis.gc();
    globalThis.gc();
    const { heapUsed, external } = process.memoryUsage();
    process.send(heapUsed + external);
  });
  // The service ends when it is done, not when the benchmark is.
  process.channel.unref();
}
