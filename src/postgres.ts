/** The Postgres of this process: the operator's own, by its URL, or the embedded one in the data folder. */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Settings } from './settings.js';
import { parseUidRange } from './setting-kinds.js';
import { capacityOf } from './embedded/capacity.js';
import { hasServers } from './embedded/embedded-folder.js';
import { defaultBackendMemory, defaultConnections } from './embedded/process-limits.js';
import { DataFolderInUse, SERVICE } from './embedded/control-server.js';
import { type Embedded, type EmbeddedOptions, openEmbedded } from './embedded/embedded.js';
import type { ProjectServerSize } from './embedded/fleet.js';
import { exists, replaceFile } from './files.js';
import { addressOfUrl, type ServerAddress } from './pg/index.js';

export { DataFolderInUse, SERVICE };

export interface ServicePostgres {
  /** The control database, and the service's login to it. */
  readonly address: ServerAddress;
  /** null for the operator's own server. */
  readonly embedded: Embedded | null;
  /** Maximum number of connections to projects' databases that this process may open. */
  readonly maxConnections: number;
  /** The source of the roles' passwords: the setting, or a random secret kept in the data folder. */
  readonly secret: string;
  close(): Promise<void>;
}

/** False in a folder where no service has ever run, for instance the wrong one. */
export const hasPostgres = async ({ databaseUrl, dataDir }: Settings): Promise<boolean> =>
  databaseUrl !== null || hasServers(dataDir);

/** Default for the operator's own server, which may also serve other programs and other instances of the service. */
export const CONNECTIONS_ELSEWHERE = 80;

/** Connections reserved for superusers, and those that the service, a backup and a repair need. */
const CONNECTIONS_OF_SERVICE = 10;

/** Autovacuum runs at least twice before an idle server is stopped. */
const NAPS_BEFORE_STOP = 2;
const MAX_NAP_S = 60;

/** Marks a data folder that a killed `cdp restore --from` has left. */
export const unfinishedRestore = ({ dataDir }: Settings): string => join(dataDir, 'unfinished-restore');

/** Whether an installation can be restored here: there is none yet, at most what a killed restore has left. */
export const lacksInstallation = async (config: Settings): Promise<boolean> =>
  config.databaseUrl === null && (!(await hasPostgres(config)) || (await exists(unfinishedRestore(config))));

interface Opening {
  /** Called before an embedded server starts. */
  readonly starting?: () => void;
  /** Makes the data directory of the control server, from a backup. */
  readonly makeControl?: EmbeddedOptions['makeControl'];
}

/**
 * Opens the Postgres that the settings name. The process owns the data folder until it closes it.
 * @param owner the command that opens it, such as {@link SERVICE}, for error messages of other commands
 * @throws DataFolderInUse
 * @throws Error that an operator can act on
 */
export async function openPostgres(
  config: Settings,
  owner: string,
  logger: Logger,
  { starting = () => {}, makeControl }: Opening = {},
): Promise<ServicePostgres> {
  if (config.databaseUrl !== null) {
    return {
      address: addressOfUrl(config.databaseUrl),
      embedded: null,
      maxConnections: config.maxConnections ?? CONNECTIONS_ELSEWHERE,
      secret: config.secret ?? '',
      close: () => Promise.resolve(),
    };
  }
  if (makeControl === undefined && (await exists(unfinishedRestore(config)))) {
    throw new Error(
      `A restore of the data folder ${config.dataDir} was interrupted. Repeat it with cdp restore --from, or remove the folder`,
    );
  }
  const capacity = await capacityOf();
  const embedded = await openEmbedded({
    dataDir: config.dataDir,
    postgresBin: config.postgresBin,
    owner,
    starting,
    ...(makeControl && { makeControl }),
    log: logger,
    size: sizeOf(config),
    backendMib: config.backendMemoryMib ?? defaultBackendMemory(),
    maxServers: Math.min(config.maxServers ?? Infinity, capacity.servers),
    maxWaiting: config.projectRunning + config.projectWaiting,
    idleStopMs: config.idleStopMs,
    diskReserve: config.diskReserveMib * 1024 * 1024,
    uids: config.projectUids === null ? null : parseUidRange(config.projectUids),
  });
  return {
    address: { ...embedded.control.socket, password: '', connectionTimeoutMillis: 5_000 },
    embedded,
    maxConnections: config.maxConnections ?? defaultConnections(),
    secret: await keptSecret(join(config.dataDir, 'secret')),
    close: () => embedded.control.close(),
  };
}

/** The secret for roles on added servers. This process owns the folder, so no other writes the file. */
async function keptSecret(file: string): Promise<string> {
  if (!(await exists(file))) await replaceFile(file, randomBytes(32).toString('hex'), 0o600);
  return readFile(file, 'utf8');
}

function sizeOf(config: Settings): ProjectServerSize {
  const { projectRunning, projectReserved, sharedBuffersMib, parallelWorkers, maxWalSizeMib, idleStopMs } = config;
  const sessions = config.pgPort === null ? 0 : config.pgSessions;
  const nap = Math.floor(idleStopMs / NAPS_BEFORE_STOP / 1_000);
  return {
    // Each kind may have as many connections as requests may run, see `ServerCapacities`.
    maxConnections: 2 * projectRunning - projectReserved + sessions + CONNECTIONS_OF_SERVICE,
    sharedBuffersMib,
    parallelWorkers,
    maxWalSizeMib,
    autovacuumNapSeconds: Math.min(MAX_NAP_S, Math.max(1, nap)),
    durable: true,
  };
}
