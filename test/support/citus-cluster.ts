/**
 * A Citus cluster for tests: a coordinator and two workers, all on this machine, with Debian's Postgres 15. Citus is in
 * no package registry that we use, so it must be installed to run the tests (docs/citus.md); if it is missing, {@link
 * citus} says so once.
 */
import { existsSync, readFileSync } from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from './folder.js';
import { connected } from './postgres.js';
import { freePort } from './program.js';
import type { TestProject, TestService } from './service.js';
import { type Connection, startThrowaway, type ThrowawayServer } from './throwaway-postgres.js';

const MAJOR = 15;
const LIBRARY = `/usr/lib/postgresql/${MAJOR}/lib/citus.so`;
const SERVER = `/usr/lib/postgresql/${MAJOR}/bin/postgres`;
/** A function of Postgres that a library built for 15.20 or later calls, and that earlier ones do not have. */
const SYMBOL = 'have_createdb_privilege';

export interface NodeAddress {
  /** Its superuser. */
  readonly connection: Connection;
  /** On loopback, where the nodes find each other. */
  readonly tcpPort: number;
}

export interface CitusNode extends ThrowawayServer, NodeAddress {
  /** Starts it again after a stop. */
  restart(): Promise<void>;
}

export interface CitusCluster {
  readonly coordinator: CitusNode;
  readonly workers: readonly [CitusNode, CitusNode];
  /** Of all nodes, the coordinator first. */
  readonly addresses: readonly NodeAddress[];
  /** The superuser, in a new database that has Citus and nothing else. */
  database(): Promise<Connection>;
  close(): Promise<void>;
}

/** Whether the tests of Citus can run. Says loudly if not. */
export function hasCitus(): boolean {
  const obstacle = whyNoCitus();
  if (obstacle !== undefined) console.warn(`NOT TESTED: Citus. ${obstacle} (docs/citus.md)`);
  return obstacle === undefined;
}

function whyNoCitus(): string | undefined {
  if (!existsSync(LIBRARY)) return `${LIBRARY} is not installed`;
  if (readFileSync(LIBRARY).includes(SYMBOL) && !readFileSync(SERVER).includes(SYMBOL)) {
    return `${LIBRARY} needs a newer minor version of ${SERVER}: upgrade postgresql-${MAJOR}`;
  }
  return undefined;
}

/** What a node needs (Citus manual, "Multi-node"), and what keeps three of them small. */
const SETTINGS = [
  'shared_preload_libraries=citus',
  'wal_level=logical',
  'max_prepared_transactions=100',
  'timezone=UTC',
  'shared_buffers=32MB',
  'citus.node_conninfo=sslmode=prefer',
  'citus.shard_count=4',
  'citus.enable_statistics_collection=off',
  'citus.recover_2pc_interval=5s',
];

/** A node logs in to another as whichever role asks it. */
const HBA = 'host all all 127.0.0.1/32 trust\n';

export async function startCitus(): Promise<CitusCluster> {
  const folder = makeFolder('cdp-citus-');
  await chmod(folder, 0o711);
  const node = async (name: string): Promise<CitusNode> => {
    const tcpPort = await freePort();
    const options = { major: MAJOR, port: tcpPort, settings: SETTINGS, hba: HBA };
    let server = await startThrowaway(join(folder, name), options);
    return {
      tcpPort,
      log: server.log,
      connection: server.connection,
      get pid() {
        return server.pid;
      },
      stop: (mode) => server.stop(mode),
      restart: async () => void (server = await startThrowaway(join(folder, name), options)),
    };
  };
  const coordinator = await node('c');
  const workers = [await node('w1'), await node('w2')] as const;
  const nodes = [coordinator, ...workers];
  const addresses = nodes.map(({ connection, tcpPort }) => ({ connection, tcpPort }));
  let counter = 0;
  return {
    coordinator,
    workers,
    addresses,
    database: () => createCitusDatabase(addresses, `giant_${++counter}`),
    close: async () => {
      await Promise.all(nodes.map((one) => one.stop().catch(() => {})));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @param nodes the coordinator first */
export async function createCitusDatabase(nodes: readonly NodeAddress[], database: string): Promise<Connection> {
  for (const { connection } of nodes) {
    await connected(connection, (client) => client.query(`CREATE DATABASE ${database} TEMPLATE template0`));
    await connected({ ...connection, database }, (client) => client.query('CREATE EXTENSION citus'));
  }
  const [coordinator, ...workers] = nodes;
  if (coordinator === undefined) throw new Error('A cluster has a coordinator');
  const address = { ...coordinator.connection, database };
  await connected(address, async (client) => {
    await client.query("SELECT citus_set_coordinator_host('127.0.0.1', $1)", [coordinator.tcpPort]);
    for (const { tcpPort } of workers) await client.query("SELECT citus_add_node('127.0.0.1', $1)", [tcpPort]);
  });
  return address;
}

let servers = 0;

/** A cluster as a server of the service, with a database of its own. @returns its name */
export async function citusServer(service: TestService, cluster: CitusCluster): Promise<string> {
  const { host, port, user, password, database } = await cluster.database();
  const name = `citus-${++servers}`;
  const variable = `CDP_TEST_CITUS_${servers}`;
  process.env[variable] = `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
  const bounds = { labels: {}, weight: 1, maxProjects: null, maxBytes: null, maxConnections: null };
  const server = { name, urlReference: `env:${variable}`, engine: 'citus', tenancy: 'dedicated', ...bounds } as const;
  await service.engine.control.servers.add(server, null);
  return name;
}

/** A project on a cluster that has no other. */
export async function citusProject(service: TestService, cluster: CitusCluster): Promise<TestProject> {
  const name = await citusServer(service, cluster);
  return service.project(`giant-${servers}`, name);
}
