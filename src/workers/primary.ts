/**
 * The service in several processes: this one has the embedded Postgres, the port and the signals, and each worker is an
 * instance of the service that is given connections. Why like this: docs/decisions/0030-workers.md.
 */
import type { Logger } from 'pino';
import { type Database, openDatabase, SERVICE } from '../database.js';
import { requestCounter } from '../http/gate/rate-limit.js';
import { BACKLOG, Closing, type RunningService } from '../service.js';
import type { Config } from '../settings.js';
import type { TraceExport } from '../trace-export.js';
import { Crew } from './crew.js';
import { FrontDoor } from './front-door.js';
import { copyLines } from './merged-log.js';
import type { Orders } from './messages.js';
import { MetricsSum } from './metrics-sum.js';
import { shareOf } from './shares.js';

/** What a worker may need beyond the time that its requests have, to write its log and audit log and to log out. */
const CLOSING_MS = 10_000;

/** @throws Error that an operator can act on; whatever had been started is stopped again */
export async function startWorkers(
  config: Config,
  logger: Logger,
  traces: TraceExport | null,
): Promise<RunningService> {
  const closing = new Closing();
  const metrics = new MetricsSum();
  const countRequest = config.rateLimit === null ? null : requestCounter(config.rateLimit);
  try {
    const database: Database = await openDatabase(config, SERVICE, logger, {
      restarted: (pid) => crew.say({ say: 'postmaster', pid }),
    });
    closing.add(() => database.close());
    const door = new FrontDoor(() => crew.ready);
    const crew: Crew = new Crew(
      (number) => ({ ...ordersOf(config, database, number), traces }),
      {
        hired: (worker) => copyLines(worker.output, logger),
        ready: () => door.admitWaiting(),
        ended: (worker) => {
          metrics.ended(worker);
          door.takeBack(worker.leftBehind());
        },
        metricsOfAll: () => metrics.text(crew.ready),
        countRequest: (caller) => {
          const { count = 0, endsAt = 0 } = countRequest?.(caller) ?? {};
          return { count, msLeft: endsAt - performance.now() };
        },
      },
      logger,
    );
    closing.add(() => crew.stop(config.shutdownMs + CLOSING_MS));
    await crew.start(config.workers);
    closing.add(() => Promise.resolve(door.close()));
    if (config.metricsPort !== null) await door.open('metrics', config.metricsHost, config.metricsPort, BACKLOG);
    const url = await door.open('api', config.host, config.port, BACKLOG);
    const firstToken = database.embedded ? await crew.welcome() : null;
    logger.info({ url, embedded: database.embedded, workers: config.workers }, 'listening');
    return { url, firstToken, close: () => closing.run(), breakOff: () => crew.say({ say: 'break off' }) };
  } catch (error) {
    await closing.run();
    throw error;
  }
}

function ordersOf(
  config: Config,
  { address, secret, postmaster, connections }: Database,
  number: number,
): Omit<Orders, 'traces'> {
  const embedded = postmaster === null ? null : { address, secret, postmaster: postmaster() };
  return { number, config: shareOf(config, connections, number), embedded };
}
