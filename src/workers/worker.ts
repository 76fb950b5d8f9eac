/**
 * The program of a worker, started by `worker-process.ts`: an instance of the service that serves the connections it is
 * handed. It ends when its primary says so, and at once where that is gone.
 */
import type { Socket } from 'node:net';
import { EngineError } from '../contract/errors.js';
import { type Database, openDatabase, SERVICE } from '../database.js';
import type { Engine } from '../engine/engine.js';
import { welcome } from '../engine/first-start.js';
import { messageOf } from '../contract/operator-message.js';
import { finish } from '../http/app.js';
import { HandedConnections } from '../http/connection/handed-connections.js';
import type { Metrics } from '../http/watch/metrics.js';
import type { Together } from '../http/server.js';
import { assemble, Closing, createLogger, openTracing } from '../service.js';
import { STOP_SIGNALS } from '../stop-signals.js';
import { type Counted, type ListenerName, type Orders, Questions, type ToPrimary, type ToWorker } from './messages.js';

/** The primary is told so often at most how many connections are open. */
const LOAD_EVERY_MS = 100;

/** Everything that works once the start is done. */
interface Running {
  readonly engine: Engine;
  readonly metrics: Metrics;
  readonly doors: ReadonlyMap<ListenerName, HandedConnections>;
}

/** @param said called when it is on its way */
function say(message: ToPrimary, said = () => {}): void {
  // Without a primary the process is about to end.
  if (process.connected) process.send?.(message, undefined, {}, said);
}

const closing = new Closing();
const questions = new Questions();
let starting: Promise<Running>;
let postmaster = 0;
let isTraced = false;

async function start({ config, embedded, number, traces }: Orders): Promise<Running> {
  const logger = createLogger(config, number);
  isTraced = traces !== null;
  const spans = await openTracing(traces, config, logger, closing);
  if (embedded !== null) postmaster = embedded.postmaster;
  const database: Database =
    embedded === null
      ? await openDatabase(config, SERVICE, logger)
      : {
          ...embedded,
          embedded: true,
          postmaster: () => postmaster,
          connections: config.maxConnections ?? 0,
          close: () => Promise.resolve(),
        };
  const { engine, app, metrics, metricsApp } = await assemble(config, database, logger, closing, { spans, together });
  const doors = new Map<ListenerName, HandedConnections>();
  for (const [name, server] of [
    ['metrics', metricsApp],
    ['api', app],
  ] as const) {
    if (server === null) continue;
    await server.ready();
    const door = new HandedConnections(server, tellLoad);
    doors.set(name, door);
    closing.add(() => finish(server, config.shutdownMs, () => door.close()));
  }
  return { engine, metrics, doors };
}

const together: Together = {
  countRequest: async (caller) => {
    const { count, msLeft } = await questions.ask<Counted>((id) => say({ say: 'request', id, caller }));
    return { count, endsAt: performance.now() + msLeft };
  },
  metrics: async () => {
    const text = await questions.ask<string | null>((id) => say({ say: 'metrics of all', id }));
    if (text === null) throw new Error('The metrics of the workers cannot be added up');
    return text;
  },
};

let telling: NodeJS.Timeout | undefined;
function tellLoad(): void {
  telling ??= setTimeout(() => {
    telling = undefined;
    void starting.then(({ doors }) =>
      say({ say: 'load', open: [...doors.values()].reduce((sum, { open }) => sum + open, 0) }),
    );
  }, LOAD_EVERY_MS).unref();
}

async function hear(message: ToWorker, socket: Socket | undefined): Promise<void> {
  switch (message.say) {
    case 'start':
      starting = start(message.orders);
      return starting.then(
        () => say({ say: 'ready' }),
        (error: unknown) => say({ say: 'failed', message: reasonOf(error) }, () => void stop()),
      );
    case 'connection':
      say({ say: 'taken', id: message.id });
      // It is missing where its client has gone on the way.
      if (socket !== undefined) (await starting).doors.get(message.listener)?.take(socket);
      return;
    case 'postmaster':
      postmaster = message.pid;
      return;
    case 'welcome':
      return say({ say: 'answer', id: message.id, answer: await welcome((await starting).engine) });
    case 'metrics':
      return say({ say: 'answer', id: message.id, answer: await (await starting).metrics.own() });
    case 'answer':
      return questions.answered(message.id, message.answer);
    case 'stop':
      return stop();
    case 'break off':
      for (const { app } of (await starting).doors.values()) app.server.closeAllConnections();
  }
}

/** Ends the process once nothing is left to do. */
async function stop(): Promise<void> {
  await starting.catch(() => {});
  await closing.run();
  process.off('disconnect', orphaned);
  process.disconnect();
  // What is still under way to a collector that does not answer would hold the process up.
  if (isTraced) process.exit();
}

function reasonOf(error: unknown): string {
  const hint = error instanceof EngineError ? error.hint : undefined;
  return hint === undefined ? messageOf(error) : `${messageOf(error)}\n${hint}`;
}

/**
 * Nobody hands over connections any more, and the next service may start at any moment. Nobody reads the log either: at an
 * exit it would be written, and pino would try that for ever.
 */
const orphaned = () => process.kill(process.pid, 'SIGKILL');

process.on('message', (message: ToWorker, socket?: Socket) => void hear(message, socket));
process.on('disconnect', orphaned);
// A keystroke, or whoever ends a group of processes, reaches the primary as well, which lets running requests finish.
for (const signal of STOP_SIGNALS) process.on(signal, () => {});
