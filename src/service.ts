/**
 * The running service: opens in order (database, engine, HTTP) and closes in reverse. The command line, the tests and
 * the benchmarks start exactly this.
 */
import { pino, type Logger } from 'pino';
import type { Config } from './settings.js';
import { EngineError } from './contract/errors.js';
import { type Database, openDatabase } from './database.js';
import { LogLines } from './log-lines.js';
import type { Engine, EngineSettings } from './engine/engine.js';
import { VERSION } from './version.js';

export interface Service {
  /** Where it listens, for instance `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly engine: Engine;
  /** The token of the project that a first start on an embedded database makes; null at any later start. */
  readonly firstToken: string | null;
  /** Finishes running requests, then stops everything it started. Calling it again waits for the same end. */
  close(): Promise<void>;
  /** Breaks off the requests that are running; with it, a `close` that waits for them comes to its end. */
  breakOff(): void;
}

/** The project that the first start on an embedded database makes. */
const FIRST_PROJECT = 'default';

/**
 * Connections that may wait to be taken (Linux: at most `net.core.somaxconn`, 4,096). Beyond it the system drops them, and
 * clients try again after 1, 3 and 7 s: Node's 511 were too few for 1,000 clients that come at once.
 */
const BACKLOG = 4_096;

/** One JSON line an event on standard output; secrets never get there. */
function createLogger({ logLevel }: Config): Logger {
  return pino({ level: logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime }, new LogLines());
}

/** Reading the modules of a running service takes as long as Postgres takes to start, and happens meanwhile. */
const loadModules = () =>
  Promise.all([import('./http/server.js'), import('./http/metrics-listener.js'), import('./engine/engine.js')]);

/** @throws Error that an operator can act on; whatever had been started is stopped again */
export async function startService(config: Config, logger: Logger = createLogger(config)): Promise<Service> {
  const opened: (() => Promise<unknown>)[] = [];
  const closeAll = async () => {
    for (const close of opened.splice(0).reverse()) await close();
  };
  try {
    const loading = loadModules();
    const database = await openDatabase(config, 'service', logger);
    opened.push(() => database.close());
    const engine = await openEngine(config, database, logger);
    opened.push(() => engine.close());
    engine.audit.keepRemovingOld();
    const [{ httpServer }, { metricsListener }] = await loading;
    const { app, metrics } = await httpServer(
      engine,
      { ...config, separateMetrics: config.metricsPort !== null, version: VERSION },
      logger,
    );
    if (config.metricsPort !== null) {
      const listener = metricsListener(metrics, config, logger);
      await listener.listen({ host: config.metricsHost, port: config.metricsPort });
      opened.push(() => listener.close());
    }
    const url = await app.listen({ host: config.host, port: config.port, backlog: BACKLOG });
    opened.push(async () => {
      const late = setTimeout(() => app.server.closeAllConnections(), config.shutdownMs);
      await app.close();
      clearTimeout(late);
    });
    // Only now: a token that is made by a start that fails would never be seen.
    const firstToken = database.embedded ? await welcome(engine) : null;
    logger.info({ url, embedded: database.embedded }, 'listening');
    let closed: Promise<void> | null = null;
    const close = () => (closed ??= closeAll());
    return { url, engine, firstToken, close, breakOff: () => app.server.closeAllConnections() };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** The engine over an open database, as the service and the management commands use it. */
export async function openEngine(config: Config, database: Database, logger: Logger): Promise<Engine> {
  const { Engine } = await import('./engine/engine.js');
  const { address, secret, postmaster, connections: maxConnections } = database;
  const { jwtIssuer, jwtAudience, jwtJwksUrl } = config;
  const jwt =
    jwtIssuer === null || jwtAudience === null || jwtJwksUrl === null
      ? null
      : { issuer: jwtIssuer, audience: jwtAudience, jwksUrl: new URL(jwtJwksUrl) };
  const onUnclearedProject: EngineSettings['onUnclearedProject'] = ({ name, status }, error) => {
    const cause = error instanceof EngineError ? (error.cause ?? error) : error;
    logger.error({ project: name, status, error: String(cause) }, 'a project is half done and cannot be cleared away');
  };
  const onExposed: EngineSettings['onExposed'] = (objects) => {
    logger.warn({ objects }, 'not hardened: every project can read the names of databases, roles and sessions here');
  };
  const onAuditTrouble: EngineSettings['onAuditTrouble'] = (message, details) => logger.error(details, message);
  const told = { onUnclearedProject, onExposed, onAuditTrouble };
  return Engine.open({ ...config, maxConnections, address, secret, postmaster, jwt, ...told });
}

/** The first project and its token, once in the life of a data folder. */
async function welcome(engine: Engine): Promise<string | null> {
  if (!(await engine.control.isUnwelcomed())) return null;
  const existing = await engine.control.projectByName(FIRST_PROJECT);
  const project = existing ?? (await engine.projects.create(FIRST_PROJECT));
  const { token } = await engine.tokens.create(project.id, { name: 'first start' });
  await engine.control.setWelcomed();
  return token;
}
