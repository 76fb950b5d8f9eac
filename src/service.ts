/**
 * The running service: opens database, engine and HTTP in this order, and closes them in reverse. The command line, the
 * tests and the benchmarks all start this.
 */
import type { FastifyInstance } from 'fastify';
import { type DestinationStream, type Logger, pino } from 'pino';
import { type AdminSocket, openAdminSocket } from './admin-socket.js';
import type { Config } from './settings.js';
import { EngineError } from './contract/errors.js';
import { type Database, openDatabase, SERVICE } from './database.js';
import { LogLines } from './log-lines.js';
import type { Engine, EngineSettings } from './engine/engine.js';
import { bootstrap } from './engine/bootstrap.js';
import type { RequestSpans } from './http/observability/request-spans.js';
import type { TraceExport } from './trace-export.js';

export interface Service {
  readonly engine: Engine;
  /** Its address, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The token of the project that the first start on an embedded database creates; null at later starts. */
  readonly firstToken: string | null;
  /** Finishes running requests, then stops everything it started. A second call waits for the first. */
  close(): Promise<void>;
  /** Aborts running requests, so that a `close` that waits for them can finish. */
  breakOff(): void;
}

/**
 * Connections that may wait to be accepted (Linux: at most `net.core.somaxconn`, 4,096). The system drops further ones, and
 * clients retry after 1, 3 and 7 s: Node's 511 are too few for 1,000 clients that connect at once.
 */
const BACKLOG = 4_096;

/** How often old archived log is removed. */
const ARCHIVES_EVERY_MS = 600_000;

/** Loading these modules takes longer than Postgres takes to start, so it happens meanwhile. */
const loadModules = () =>
  Promise.all([
    import('./http/server.js'),
    import('./http/metrics-listener.js'),
    import('./engine/engine.js'),
    import('./http/admin-listener.js'),
  ]);

/** One JSON line per event on standard output, never with a secret. */
export function createLogger(config: Config, destination: DestinationStream = new LogLines()): Logger {
  return pino({ level: config.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/**
 * @param traces where spans go; null: nowhere
 * @throws Error that an operator can act on; whatever was started is stopped again
 */
export async function startService(
  config: Config,
  logger: Logger = createLogger(config),
  traces: TraceExport | null = null,
): Promise<Service> {
  const closing = new Closing();
  try {
    const spans = await openTracing(traces, config, logger, closing);
    const database = await openDatabase(config, SERVICE, logger, () => void loadModules());
    closing.add(() => database.close());
    const { finish } = await import('./http/listener.js');
    const { engine, app, metricsApp } = await assemble(config, database, logger, closing, spans);
    if (database.embedded === null) await warnOfSharedServer(engine, logger);
    if (metricsApp !== null) {
      await metricsApp.listen({ host: config.metricsHost, port: config.metricsPort ?? 0 });
      closing.add(() => metricsApp.close());
    }
    const url = await app.listen({ host: config.host, port: config.port, backlog: BACKLOG });
    let admin: AdminSocket | undefined;
    // Commands are served until the last request is answered; later ones would have to wait for the exit.
    closing.add(async () => {
      const until = performance.now() + config.shutdownMs;
      await finish(app, config.shutdownMs);
      await admin?.close(Math.max(0, until - performance.now()));
    });
    if (database.embedded !== null) {
      admin = await openAdminSocket(config.dataDir, config, database, () => Promise.resolve(engine), logger);
    }
    // Last: nobody would see a token that a failing start creates.
    const firstToken = database.embedded !== null ? await bootstrap(engine) : null;
    logger.info({ url, embedded: database.embedded !== null }, 'listening');
    const breakOff = () => {
      app.server.closeAllConnections();
      admin?.breakOff();
    };
    return { url, engine, firstToken, close: () => closing.run(), breakOff };
  } catch (error) {
    await closing.run();
    throw error;
  }
}

/** Projects on one server share its crashes and its load. An operator should know before the first crash. */
async function warnOfSharedServer({ projects }: Engine, logger: Logger): Promise<void> {
  const { length } = await projects.list();
  if (length < 2) return;
  logger.warn(
    { projects: length },
    'these projects share one Postgres server: anyone who can run SQL in one of them can slow or crash it for all (docs/security.md)',
  );
}

/** Steps to close what was opened, in reverse order. */
export class Closing {
  private readonly steps: (() => Promise<unknown>)[] = [];
  private running: Promise<void> | null = null;

  add(step: () => Promise<unknown>): void {
    this.steps.push(step);
  }

  /** A second call waits for the first. */
  run(): Promise<void> {
    return (this.running ??= this.takeSteps());
  }

  private async takeSteps(): Promise<void> {
    for (const step of this.steps.splice(0).reverse()) await step();
  }
}

/** Without traces the SDK is not loaded. It closes last: whatever closes before it may still create spans. */
async function openTracing(
  traces: TraceExport | null,
  config: Config,
  logger: Logger,
  closing: Closing,
): Promise<RequestSpans | undefined> {
  if (traces === null) return undefined;
  const { Tracing } = await import('./trace-export.js');
  const tracing = await Tracing.open(traces, config.traceDetail, logger);
  closing.add(() => tracing.close());
  return tracing.spans;
}

/** An engine and its HTTP servers, which do not listen yet. */
interface Assembly {
  readonly engine: Engine;
  readonly app: FastifyInstance;
  /** The separate listener for metrics, if one is set. */
  readonly metricsApp: FastifyInstance | null;
}

/** @param spans creates the spans of requests; undefined: no traces */
async function assemble(
  config: Config,
  database: Database,
  logger: Logger,
  closing: Closing,
  spans?: RequestSpans,
): Promise<Assembly> {
  const loading = loadModules();
  const engine = await openEngine(config, database, logger);
  closing.add(() => engine.close());
  engine.audit.keepRemovingOld();
  engine.projects.keepClearing();
  const tidyArchives = async () => {
    const { removeOldArchives } = await import('./backup/archiving.js');
    await removeOldArchives(engine.tenancy, config.archiveDays);
  };
  const tidyingFailed = (error: unknown) => logger.warn({ error: String(error) }, 'old archived WAL cannot be removed');
  const tidying = setInterval(() => void tidyArchives().catch(tidyingFailed), ARCHIVES_EVERY_MS).unref();
  closing.add(() => Promise.resolve(clearInterval(tidying)));
  const [{ httpServer }, { metricsListener }] = await loading;
  const settings = {
    ...config,
    separateMetrics: config.metricsPort !== null,
    showsFirstToken: database.embedded !== null,
  };
  const { app, metrics } = await httpServer(engine, settings, logger, spans);
  const metricsApp = config.metricsPort === null ? null : metricsListener(metrics, config, logger);
  return { engine, app, metricsApp };
}

/** The engine on an open database, as the service and the management commands use it. */
export async function openEngine(config: Config, database: Database, logger: Logger): Promise<Engine> {
  const { Engine } = await import('./engine/engine.js');
  const { address, embedded, connections: maxConnections } = database;
  const { jwtIssuer, jwtAudience, jwtJwksUrl } = config;
  const jwt =
    jwtIssuer === null || jwtAudience === null || jwtJwksUrl === null
      ? null
      : { issuer: jwtIssuer, audience: jwtAudience, jwksUrl: new URL(jwtJwksUrl) };
  const onUnclearedProject: EngineSettings['onUnclearedProject'] = ({ name, status }, error) => {
    const cause = error instanceof EngineError ? (error.cause ?? error) : error;
    logger.error({ project: name, status, error: String(cause) }, 'a project is incomplete and cannot be cleaned up');
  };
  const onAuditTrouble: EngineSettings['onAuditTrouble'] = (message, details) => logger.error(details, message);
  const onServerTrouble: EngineSettings['onServerTrouble'] = (project, trouble, details) =>
    logger.error({ project, ...details }, trouble);
  const handlers = { onUnclearedProject, onAuditTrouble, onServerTrouble };
  // Roles of embedded servers have no passwords to derive from it.
  const secret = embedded === null ? config.secret : null;
  return Engine.open({ ...config, maxConnections, address, embedded, secret, jwt, ...handlers });
}
