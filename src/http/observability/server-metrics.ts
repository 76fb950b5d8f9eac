/**
 * Metrics of Postgres servers, their commits and standbys, and the disk of the data folder, measured at each scrape.
 */
import { statfs } from 'node:fs/promises';
import { type Counter, Gauge, type Registry } from 'prom-client';
import { OPEN_STATES } from '../../contract/moves.js';
import { DEFAULT_SERVER } from '../../contract/servers.js';
import type { Engine } from '../../engine/engine.js';
import { type Queryable, type Replication, replicationOf, timeOfCommit } from '../../engine/servers/server-findings.js';
import { isOnReadOnlyDisk } from '../../files.js';
import { singleFlight } from '../../promises.js';

/** Measurements of a server, in the units of the metrics. A failed one is NaN, which matches no alert. */
interface Measured {
  readonly server: string;
  readonly commit: number;
  /** null: it can have none. */
  readonly standbys: { readonly count: number; readonly lag: number; readonly missing: number } | null;
}

type Ask = <T>(question: (server: Queryable) => Promise<T>) => Promise<T>;

export function serverMetrics(engine: Engine, registers: Registry[]): void {
  const { serversFolder: folder } = engine;
  const controlHelp = '1 if the control database responds, otherwise 0.';
  series(registers, Gauge, 'cdp_postgres_up', controlHelp, [], async () => {
    const value = await engine.control.ping().then(
      () => 1,
      () => 0,
    );
    return [[{}, value]];
  });
  const serversHelp = '1 if the added Postgres server answers this instance, otherwise 0; by server.';
  series(registers, Gauge, 'cdp_server_up', serversHelp, ['server'], () =>
    engine.serverWatch.states.map(({ server, isUp }) => [{ server }, Number(isUp)]),
  );
  const movesHelp = 'Moves of projects that have something left to do, across all instances; by state.';
  series(registers, Gauge, 'cdp_moves_open', movesHelp, ['state'], async () => {
    // While the control database is away, a scrape lacks only these.
    const open = await engine.moves.rows.countOpen().catch(() => null);
    return open === null ? [] : OPEN_STATES.map((state) => [{ state }, open.get(state) ?? 0]);
  });
  // Gauges that are collected at the same time share one measurement.
  const measured = singleFlight(() => measure(engine));
  const gauge = (name: string, help: string, valueOf: (of: Measured) => number | undefined) =>
    series(registers, Gauge, name, help, ['server'], async () =>
      (await measured()).flatMap((one) => {
        const value = valueOf(one);
        return value === undefined ? [] : [[{ server: one.server }, value]];
      }),
    );
  const commitHelp = 'Time of one small commit, by this scrape; of the server default in the control database.';
  gauge('cdp_commit_duration_seconds', commitHelp, ({ commit }) => commit);
  gauge('cdp_standbys', 'Connected standbys of Postgres.', ({ standbys }) => standbys?.count);
  const lagHelp = 'Write-ahead log that the slowest standby has not replayed.';
  gauge('cdp_standby_lag_bytes', lagHelp, ({ standbys }) => standbys?.lag);
  const missingHelp = '1 if commits wait for a synchronous standby and none is connected, otherwise 0.';
  gauge('cdp_standby_missing', missingHelp, ({ standbys }) => standbys?.missing);
  if (folder === null) return;
  diskMetrics(folder, registers);
  const writableHelp = '0 if the file system of the embedded servers is mounted read-only, otherwise 1.';
  series(registers, Gauge, 'cdp_disk_writable', writableHelp, [], async () => [
    [{}, Number(!(await isOnReadOnlyDisk(folder)))],
  ]);
  const readOnlyHelp =
    '1 if projects can only be read because the disk is nearly full (disk-reserve-mib), otherwise 0.';
  series(registers, Gauge, 'cdp_disk_read_only', readOnlyHelp, [], () => [
    [{}, Number(engine.servers.defaultTenancy.isReadOnly)],
  ]);
}

function diskMetrics(folder: string, registers: Registry[]): void {
  const disk = singleFlight(() => statfs(folder));
  const gauge = (name: string, help: string, blocksOf: (stats: Awaited<ReturnType<typeof disk>>) => number) =>
    series(registers, Gauge, name, help, [], async () => {
      const bytes = await disk().then(
        (stats) => blocksOf(stats) * stats.bsize,
        () => NaN,
      );
      return [[{}, bytes]];
    });
  gauge('cdp_disk_free_bytes', 'Free space on the disk of the embedded servers.', ({ bavail }) => bavail);
  gauge('cdp_disk_size_bytes', 'Size of the disk of the embedded servers.', ({ blocks }) => blocks);
}

const UNREACHABLE = new Error('It does not answer');

/** Measures all servers. The pools limit the wait for each to some seconds. */
function measure({ control, serversFolder: folder, serverWatch }: Engine): Promise<Measured[]> {
  const defaultServer = measureOne(DEFAULT_SERVER, (question) => control.ask(question), folder === null);
  const added = serverWatch.states.map(({ server, pool }) =>
    measureOne(server, (question) => (pool === null ? Promise.reject(UNREACHABLE) : question(pool)), true),
  );
  return Promise.all([defaultServer, ...added]);
}

/** @param mayHaveStandbys false for embedded servers */
async function measureOne(server: string, ask: Ask, mayHaveStandbys: boolean): Promise<Measured> {
  // A server that does not answer has no values; `cdp_server_up` says so.
  const replication = mayHaveStandbys ? await ask(replicationOf).catch(() => null) : undefined;
  // A commit would not return there.
  const isStuck = replication === null || typeof replication?.missing === 'string';
  return {
    server,
    // As above.
    commit: isStuck ? NaN : await ask(timeOfCommit).catch(() => NaN),
    standbys: replication === undefined ? null : standbysOf(replication),
  };
}

const UNKNOWN = { count: NaN, lag: NaN, missing: NaN };

function standbysOf(replication: Replication | null): NonNullable<Measured['standbys']> {
  if (replication === null) return UNKNOWN;
  const { standbys: count, lagBytes, missing } = replication;
  return { count, lag: lagBytes ?? (count === 0 ? 0 : NaN), missing: missing === null ? 0 : 1 };
}

/** Values by their labels. */
export type Samples = readonly (readonly [labels: Record<string, string>, value: number])[];

/** @param read reads all values of the metric */
export function series(
  registers: Registry[],
  Kind: typeof Counter | typeof Gauge,
  name: string,
  help: string,
  labelNames: string[],
  read: () => Samples | Promise<Samples>,
): void {
  new Kind({
    name,
    help,
    labelNames,
    registers,
    async collect() {
      const samples = await read();
      this.reset();
      for (const [labels, value] of samples) this.inc(labels, value);
    },
  });
}
