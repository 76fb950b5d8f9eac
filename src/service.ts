/**
 * The running service: opens the database, the engine and HTTP in this order, and closes them in reverse. Started by
 * the command line, tests and benchmarks.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type DestinationStream, type Logger, pino } from 'pino';
import { type AdminSocket, openAdminSocket } from './admin-socket.js';
import { Closing } from './closing.js';
import { openConfiguredEngine } from './configured-engine.js';
import { BY_ITSELF } from './contract/audit.js';
import { FIRST_PROJECT } from './contract/projects.js';
import { type ServicePostgres, hasPostgres, openPostgres, SERVICE } from './postgres.js';
import type { Engine } from './engine/engine.js';
import { hasCode } from './files.js';
import { LogLines } from './http/observability/log-lines.js';
import type { RequestSpans } from './http/observability/request-spans.js';
import type { TraceExport } from './http/observability/trace-export.js';
import type { PostgresPort } from './postgres-port/postgres-port.js';
import type { Settings } from './settings.js';
import { runPeriodically } from './tasks.js';
import { VERSION } from './version.js';

export type { TraceExport };

export interface Service {
  readonly engine: Engine;
  /** The URL of the service, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The Postgres port; null: it is off. */
  readonly postgresPort: number | null;
  /** The token of the project that the first start with an embedded database creates; null at later starts. */
  readonly firstToken: string | null;
  /** Finishes running requests, then stops everything it started. A second call waits for the first. */
  close(): Promise<void>;
  /** Aborts running requests, so that a `close` that waits for them can finish. */
  breakOff(): void;
}

/**
 * Connections that may wait to be accepted (Linux: at most `net.core.somaxconn`, 4,096). The system drops further ones,
 * and clients retry after 1, 3 and 7 s. Node's default of 511 is too low for 1,000 clients that connect at once.
 */
const BACKLOG = 4_096;

/** How often to remove old archived WAL. */
const ARCHIVES_EVERY_MS = 600_000;

/** Loading these modules takes longer than starting Postgres, so both happen at once. */
const loadModules = () =>
  Promise.all([
    import('./http/http-server.js'),
    import('./http/metrics-listener.js'),
    import('./engine/open-engine.js'),
    import('./http/admin-socket-listener.js'),
  ]);

/** If a module cannot be loaded, the import that needs it says so. */
const preloadModules = (): void => void loadModules().catch(() => {});

/** Writes one JSON line per event to standard output, never with a secret. */
export function createLogger(config: Settings, destination: DestinationStream = new LogLines()): Logger {
  return pino({ level: config.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/**
 * @param traces where to send spans; null: no tracing
 * @param signal if aborted, a wait for other instances ends with its reason
 * @throws Error that an operator can act on; everything that was started is stopped again
 */
export async function startService(
  config: Settings,
  logger: Logger = createLogger(config),
  traces: TraceExport | null = null,
  signal?: AbortSignal,
): Promise<Service> {
  const closing = new Closing();
  try {
    const spans = await openTracing(traces, config, logger, closing);
    await requirePorts(config);
    const postgres = await openPostgres(config, SERVICE, logger, { starting: preloadModules });
    closing.add(() => postgres.close());
    const { finishRequests } = await import('./http/listener.js');
    const { engine, app, metricsApp } = await assemble(config, postgres, logger, closing, { spans, signal });
    if (postgres.embedded === null) await warnOfSharedServer(engine, logger);
    if (metricsApp !== null) {
      await metricsApp.listen({ host: config.metricsHost, port: config.metricsPort ?? 0 });
      closing.add(() => metricsApp.close());
    }
    const port = await openPostgresPort(config, engine, closing);
    const url = await app.listen({ host: config.host, port: config.port, backlog: BACKLOG });
    let admin: AdminSocket | undefined;
    // The admin socket serves commands until the last request has its response. A later command would have to wait
    // until the process exits.
    closing.add(async () => {
      const until = performance.now() + config.shutdownMs;
      await finishRequests(app, config.shutdownMs);
      await admin?.close(Math.max(0, until - performance.now()));
    });
    if (postgres.embedded !== null) {
      admin = await openAdminSocket(config.dataDir, config, postgres, () => Promise.resolve(engine), logger);
    }
    // Last: if the start failed after this, nobody would see the token.
    const firstToken = postgres.embedded !== null ? await createFirstProject(engine) : null;
    const postgresPort = port?.port ?? null;
    const ports = postgresPort === null ? {} : { postgresPort };
    logger.info({ version: VERSION, url, ...ports, embedded: postgres.embedded !== null }, 'listening');
    const breakOff = () => {
      app.server.closeAllConnections();
      admin?.breakOff();
    };
    return { url, postgresPort, engine, firstToken, close: () => closing.run(), breakOff };
  } catch (error) {
    // The operator needs the cause, not what else failed after it.
    await closing.run().catch(() => {});
    throw error;
  }
}

/**
 * Before a first start creates a data folder. At later ones, a service that is stopping may still have the ports.
 * @throws the system's error if a port is in use
 */
async function requirePorts(config: Settings): Promise<void> {
  if (await hasPostgres(config)) return;
  const { host, port, pgHost, pgPort, metricsHost, metricsPort } = config;
  for (const address of [
    { host, port },
    { host: pgHost ?? host, port: pgPort ?? 0 },
    { host: metricsHost, port: metricsPort ?? 0 },
  ]) {
    const server = createServer().listen(address);
    await once(server, 'listening');
    await new Promise((resolve) => server.close(resolve));
  }
}

/** @returns null if the settings turn it off */
async function openPostgresPort(config: Settings, engine: Engine, closing: Closing): Promise<PostgresPort | null> {
  const { pgPort, pgHost, host, tlsCert, tlsKey, pgPlain } = config;
  if (pgPort === null || engine.sessions === null) return null;
  const { PostgresPort } = await import('./postgres-port/postgres-port.js');
  const certificate =
    tlsCert === null || tlsKey === null
      ? null
      : { cert: readSettingFile('tls-cert', tlsCert), key: readSettingFile('tls-key', tlsKey) };
  const settings = { host: pgHost ?? host, port: pgPort, certificate, allowsPlain: pgPlain };
  const port = await PostgresPort.listen(engine.services.splitter, engine.sessions, settings).catch(
    (error: unknown) => {
      if (!hasCode(error, 'ERR_OSSL_X509_KEY_VALUES_MISMATCH')) throw error;
      throw new Error(`The tls-key ${tlsKey} does not belong to the tls-cert ${tlsCert}`, { cause: error });
    },
  );
  closing.add(() => port.close());
  return port;
}

/** @throws Error that names the setting */
function readSettingFile(flag: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`${flag}: the file cannot be read: ${(error as Error).message}`);
  }
}

/** Projects on one server share its crashes and its load. The operator should know this before the first crash. */
async function warnOfSharedServer({ projects }: Engine, logger: Logger): Promise<void> {
  const { length } = await projects.list();
  if (length < 2) return;
  logger.warn(
    { projects: length },
    'these projects share one Postgres server: anyone who can run SQL in one of them can slow or crash it for all (docs/security.md)',
  );
}

/** Without tracing, the SDK is not loaded. It closes last, because what closes before it may still create spans. */
async function openTracing(
  traces: TraceExport | null,
  config: Settings,
  logger: Logger,
  closing: Closing,
): Promise<RequestSpans | undefined> {
  if (traces === null) return undefined;
  const { Tracing } = await import('./http/observability/trace-export.js');
  const tracing = await Tracing.open(traces, config.traceDetail, logger);
  closing.add(() => tracing.close());
  return tracing.spans;
}

/** An engine and its HTTP servers, which do not listen yet. */
interface Assembly {
  readonly engine: Engine;
  readonly app: FastifyInstance;
  /** The separate listener for metrics; null: it is off. */
  readonly metricsApp: FastifyInstance | null;
}

/**
 * @param spans creates the spans of requests; undefined: no tracing
 * @param signal ends a wait for other instances
 */
async function assemble(
  config: Settings,
  postgres: ServicePostgres,
  logger: Logger,
  closing: Closing,
  { spans, signal }: { spans: RequestSpans | undefined; signal: AbortSignal | undefined },
): Promise<Assembly> {
  preloadModules();
  const engine = await openConfiguredEngine(config, postgres, logger, { signal });
  closing.add(() => engine.close());
  await refuseIfRestoredElsewhere(engine, logger);
  engine.audit.startRemovingOld();
  engine.projects.startClearing();
  engine.serverWatch.startWatching();
  engine.archiveWatch.startWatching();
  engine.moves.startRecovering();
  engine.scheduler.start();
  engine.erasures.startResuming();
  await engine.webhooks.open();
  if (engine.backupPlan !== null) {
    const { startScheduledBackups } = await import('./scheduled-backups.js');
    closing.add(startScheduledBackups(engine.backupServices(BY_ITSELF), engine.backupPlan, config, logger));
  }
  const stopRemoving = keepRemovingArchives(engine, config, logger);
  closing.add(() => Promise.resolve(stopRemoving()));
  const [{ httpServer }, { metricsListener }] = await loadModules();
  const settings = {
    ...config,
    separateMetrics: config.metricsPort !== null,
    showsFirstToken: postgres.embedded !== null,
  };
  const { app, metrics } = await httpServer(engine, settings, logger, spans);
  const metricsApp = config.metricsPort === null ? null : metricsListener(metrics, config, logger);
  return { engine, app, metricsApp };
}

/** How long a start waits for the backup folder, whose file system may hang. */
const FOLDER_MS = 5_000;

/** @throws RestoredElsewhere if another service continues this installation from its backup folder */
async function refuseIfRestoredElsewhere({ backupPlan, control }: Engine, logger: Logger): Promise<void> {
  if (backupPlan === null) return;
  const { ownEpoch, readEpoch, requireCurrent, RestoredElsewhere } = await import('./backup/folder/epoch.js');
  const { folder } = backupPlan;
  const own = await ownEpoch({ control });
  const late = sleep(FOLDER_MS, undefined, { ref: false }).then(() => {
    throw new Error(`it does not answer within ${FOLDER_MS / 1_000} s`);
  });
  // It may come after the answer.
  late.catch(() => {});
  try {
    requireCurrent(folder, own, await Promise.race([readEpoch(folder), late]));
  } catch (error) {
    if (error instanceof RestoredElsewhere) throw error;
    logger.warn({ folder, error: String(error) }, 'the backup folder cannot be read (setting backup-to)');
  }
}

/** Removes old archived WAL every {@link ARCHIVES_EVERY_MS}. */
function keepRemovingArchives({ servers }: Engine, { archiveDays }: Settings, logger: Logger): () => void {
  const remove = async () => {
    const { removeOldArchives } = await import('./backup/archiving.js');
    await removeOldArchives(servers.defaultTenancy, archiveDays);
  };
  return runPeriodically(ARCHIVES_EVERY_MS, 'clear_archives', remove, logger);
}

/**
 * Creates the first project and its token, which is shown to the operator once in the life of a data folder.
 * @returns the token; null at any later start
 * @throws EngineError database_unavailable, outcome_unknown
 */
export async function createFirstProject({ control, projects, tokens }: Engine): Promise<string | null> {
  if (!(await control.isFirstStart())) return null;
  const existing = await control.projects.find('name', FIRST_PROJECT.name);
  const project = existing ?? (await projects.create(FIRST_PROJECT.name));
  const { token } = await tokens.create(project.id, { name: FIRST_PROJECT.token });
  await control.endFirstStart();
  return token;
}
