/**
 * Metrics of Postgres servers, their commits and standbys, and the disk of the data folder, measured at each scrape.
 */
import { statfs } from 'node:fs/promises';
import { Gauge, type Registry } from 'prom-client';
import { OPEN_STATES } from '../../contract/moves.js';
import { DEFAULT_SERVER } from '../../contract/servers.js';
import { shared } from '../../contract/shared-promise.js';
import type { Engine } from '../../engine/engine.js';
import { type Asked, type Replication, replicationOf, timeOfCommit } from '../../engine/servers/server-health.js';
import { series } from './series.js';

/** Measurements of a server, in the units of the metrics. A failed one is NaN, which matches no alert. */
interface Measured {
  readonly server: string;
  readonly commit: number;
  /** null: it can have none. */
  readonly standbys: { readonly count: number; readonly lag: number; readonly missing: number } | null;
}

type Ask = <T>(question: (server: Asked) => Promise<T>) => Promise<T>;

export function serverMetrics(engine: Engine, registers: Registry[]): void {
  const { folder } = engine;
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
    const open = await engine.control.moves.countOpen().catch(() => null);
    return open === null ? [] : OPEN_STATES.map((state) => [{ state }, open.get(state) ?? 0]);
  });
  // Gauges that are collected at the same time share one measurement.
  const measured = shared(() => measure(engine));
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
  if (folder !== null) diskMetrics(folder, registers);
}

function diskMetrics(folder: string, registers: Registry[]): void {
  const disk = shared(() => statfs(folder));
  const gauge = (name: string, help: string, blocksOf: (found: Awaited<ReturnType<typeof disk>>) => number) =>
    series(registers, Gauge, name, help, [], async () => {
      const bytes = await disk().then(
        (found) => blocksOf(found) * found.bsize,
        () => NaN,
      );
      return [[{}, bytes]];
    });
  gauge('cdp_disk_free_bytes', 'Free space on the disk of the embedded servers.', ({ bavail }) => bavail);
  gauge('cdp_disk_size_bytes', 'Size of the disk of the embedded servers.', ({ blocks }) => blocks);
}

const UNREACHABLE = new Error('It does not answer');

/** Measures all servers. The pools limit the wait for each to some seconds. */
function measure({ control, folder, serverWatch }: Engine): Promise<Measured[]> {
  const defaultServer = measureOne(DEFAULT_SERVER, (question) => control.ask(question), folder === null);
  const added = serverWatch.states.map(({ server, pool }) =>
    measureOne(server, (question) => (pool === null ? Promise.reject(UNREACHABLE) : question(pool)), true),
  );
  return Promise.all([defaultServer, ...added]);
}

/** @param mayHaveStandbys false for embedded servers */
async function measureOne(server: string, ask: Ask, mayHaveStandbys: boolean): Promise<Measured> {
  const found = mayHaveStandbys ? await ask(replicationOf).catch(() => null) : undefined;
  // Then a commit would not return.
  const isStuck = found === null || typeof found?.missing === 'string';
  return {
    server,
    commit: isStuck ? NaN : await ask(timeOfCommit).catch(() => NaN),
    standbys: found === undefined ? null : standbysOf(found),
  };
}

const UNKNOWN = { count: NaN, lag: NaN, missing: NaN };

function standbysOf(found: Replication | null): NonNullable<Measured['standbys']> {
  if (found === null) return UNKNOWN;
  const { standbys: count, lagBytes, missing } = found;
  return { count, lag: lagBytes ?? (count === 0 ? 0 : NaN), missing: missing === null ? 0 : 1 };
}
