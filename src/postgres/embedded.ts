/**
 * The embedded Postgres: a real server, from npm packages, on a Unix socket, in the service's data folder.
 *
 * It outlives a service that is killed, and the next one adopts it. The steps, each in a file of `embedded/`: where
 * the cluster lives and who runs it, which programs, initdb, and the server itself.
 */
import { findBinaries } from './embedded/binaries.js';
import { ensureCluster } from './embedded/cluster.js';
import { exists } from '../files.js';
import { type Log, findHome } from './embedded/home.js';
import { defaultBackendMemory, defaultConnections } from './embedded/limits.js';
import { type Server, runServer } from './embedded/server.js';

export type EmbeddedPostgres = Server;

interface EmbeddedOptions {
  /** Made if it is missing. As root: give it mode 711, else the cluster is kept in /var/lib and linked from here. */
  readonly dataDir: string;
  /** The superuser's password, the same for every start on this folder. One line of ASCII. */
  readonly password: string;
  readonly log: Log;
  /** False only in tests: no fsync, so a crash of the machine loses the cluster. */
  readonly durable?: boolean;
  /** MiB that each Postgres process may take besides shared memory and stack; null: a share of the machine's. */
  readonly backendMib?: number | null;
  /** Connections to projects' databases; null: as many as fit a share of the machine's memory. */
  readonly connections?: number | null;
  /** Called once the server is on its way: until it answers there is time for other work. */
  readonly starting?: () => void;
}

/**
 * Starts the server of the data folder, or adopts the one that runs there, and makes its cluster the first time.
 * @throws a plain Error that an operator can act on, with the end of Postgres's own log where Postgres failed.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const { password, log, durable = true, starting = () => {} } = options;
  const home = await findHome(options.dataDir, log);
  const binaries = await findBinaries(home);
  if (!(await exists(home.data))) log('making the database, once: this takes some seconds');
  await ensureCluster(home, binaries, password, durable);
  const backendMib = options.backendMib ?? defaultBackendMemory();
  const connections = options.connections ?? defaultConnections();
  return runServer(home, binaries, { password, log, durable, backendMib, connections, starting });
}
