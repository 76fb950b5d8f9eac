/** A project full of marked strings, active while another project probes. */
import { createHash, randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Placement } from '../../src/tenancy/placement.js';
import { inProject, type TestProject, type TestService } from '../support/service.js';
import { Markers } from './markers.js';

const text = (file: string): string => readFileSync(new URL(file, import.meta.url), 'utf8');
const OWNED = text('neighbour.sql');
const AT_WORK = text('neighbour-at-work.sql');

export interface Neighbour {
  readonly markers: Markers;
  readonly project: TestProject;
  readonly placement: Placement;
  /** What a by-oid probe asks for: objects of its database, large objects, roles and databases of the whole server. */
  readonly oids: readonly number[];
  /** Every kind of marker that exists. */
  readonly kinds: ReadonlySet<string>;
  /** Starts what runs, waits, holds and locks, for at most a minute. @returns the process ids of its sessions */
  work(): Promise<number[]>;
  /** Ends it. @throws Error where it had ended before, so that nothing of it could have been seen */
  rest(): Promise<void>;
}

export async function makeNeighbour(service: TestService): Promise<Neighbour> {
  const markers = new Markers();
  const { stem } = markers;
  const project = await service.project(`${stem}-project`);
  const { placement } = await service.engine.projects.get(project.name);
  const lock = randomInt(1_000_000_000, 2_000_000_000);
  const { token } = await service.engine.tokens.create(project.id, { name: `${stem}_tokenname` });

  await project.rows(markers.fill(OWNED));
  const key = { headers: { 'Idempotency-Key': `${stem}_idempotencykey` } };
  await project.table(`${stem}_api`, { n: 'INTEGER' });
  await project.call('POST', `/api/cdp/data/${stem}_api`, { body: [{ n: 1 }], ...key });

  // What an operator may have written beside it.
  await inProject(service, placement, async (client) => {
    await client.query(`COMMENT ON DATABASE ${placement.database} IS '${stem}_databasecomment'`);
    await client.query(`COMMENT ON ROLE ${placement.writer} IS '${stem}_rolecomment'`);
    await client.query(`ALTER ROLE ${placement.writer} SET ${stem}_rolesetting.x = '${stem}_rolesettingvalue'`);
    await client.query(`ALTER DATABASE ${placement.database} SET ${stem}_dbsetting.x = '${stem}_dbsettingvalue'`);
  });

  // On servers of their own the names within are the same for all.
  const names: [kind: string, name: string][] =
    service.engine.servers.defaultTenancy.files !== null
      ? [['server', placement.server]]
      : [
          ['role', placement.writer],
          ['role', placement.reader],
          ['database', placement.database],
          ['controldatabase', service.database],
        ];
  for (const [kind, name] of names) markers.add(kind, name);
  markers.add('lock', String(lock));
  markers.add('token', token);
  markers.add('tokenhash', createHash('sha256').update(token).digest('hex'));

  let running = new AbortController();
  let requests: Promise<unknown>[] = [];
  /** One connection for many looks: to log in takes more than to look. */
  const looking = <T>(work: (waiting: () => Promise<number>) => Promise<T>): Promise<T> =>
    inProject(service, placement, (client) => work(() => requestsThatStay(client, placement)));

  return {
    markers,
    project,
    placement,
    oids: await oidsOf(service, placement),
    kinds: new Set([
      ...markers.kindsOf(
        OWNED,
        AT_WORK,
        '{m}-project {m}_tokenname {m}_idempotencykey {m}_api {m}_channel {m}_payload',
      ),
      ...markers.kindsOf('{m}_databasecomment {m}_rolecomment {m}_rolesettingvalue {m}_dbsettingvalue'),
      ...names.map(([kind]) => kind),
      ...['lock', 'token', 'tokenhash'],
    ]),
    work: async () => {
      running = new AbortController();
      requests = [];
      await looking(async (waiting) => {
        for (const block of AT_WORK.split(/^-- request:.*$/m).slice(1)) {
          const sql = markers.fill(block).replaceAll('{lock}', String(lock));
          const call = { token, signal: running.signal, body: { sql, timeout_ms: 60_000 } };
          requests.push(project.call('POST', '/api/cdp/sql', call).catch(() => null));
          await until(
            `${requests.length} requests of the neighbour run`,
            async () => (await waiting()) === requests.length,
          );
        }
      });
      await project.rows(`SELECT pg_notify('${stem}_channel', '${stem}_payload')`);
      return pidsOf(service, placement);
    },
    rest: () =>
      looking(async (waiting) => {
        const left = await waiting();
        running.abort();
        await Promise.all(requests);
        await until('no request of the neighbour runs', async () => (await waiting()) === 0);
        if (left < requests.length) throw new Error('The neighbour had come to its end before the probes had');
      }),
  };
}

/** Looks again and again, for 20 s at most. */
async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; !(await holds()); attempt++) {
    if (attempt === 400) throw new Error(`Not so in time: ${what}`);
    await sleep(50);
  }
}

/** How many of its requests have come to the statement that they stay at. */
async function requestsThatStay(client: pg.Client, placement: Placement): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*)::integer AS count FROM pg_stat_activity
     WHERE datname = $1 AND state = 'active' AND (wait_event = 'PgSleep' OR wait_event_type = 'Lock')`,
    [placement.database],
  );
  return rows[0]?.count ?? 0;
}

async function pidsOf(service: TestService, placement: Placement): Promise<number[]> {
  const { rows } = await inProject(service, placement, (client) =>
    client.query<{ pid: number }>('SELECT pid FROM pg_stat_activity WHERE datname = $1', [placement.database]),
  );
  return rows.map(({ pid }) => pid);
}

/** Everything of the neighbour's database that was not cloned from the template, and all that databases share. */
async function oidsOf(service: TestService, placement: Placement): Promise<number[]> {
  return inProject(service, placement, async (client) => {
    const { rows } = await client.query<{ oids: number[] }>(
      `SELECT array_agg(DISTINCT o::bigint::float8) AS oids FROM (
           SELECT oid FROM pg_class WHERE relnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_type WHERE typnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_proc WHERE pronamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_constraint WHERE connamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_operator WHERE oprnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_collation WHERE collnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_conversion WHERE connamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_ts_dict WHERE dictnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_ts_config WHERE cfgnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_statistic_ext WHERE stxnamespace = $1::regnamespace
           UNION ALL SELECT d.oid FROM pg_attrdef d JOIN pg_class c ON c.oid = adrelid AND relnamespace = $1::regnamespace
           UNION ALL SELECT t.oid FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid AND relnamespace = $1::regnamespace
           UNION ALL SELECT oid FROM pg_rewrite WHERE oid >= 16384
           UNION ALL SELECT oid FROM pg_policy
           UNION ALL SELECT oid FROM pg_cast WHERE oid >= 16384
           UNION ALL SELECT oid FROM pg_largeobject_metadata
           UNION ALL SELECT oid FROM pg_authid WHERE oid >= 16384
           UNION ALL SELECT oid FROM pg_database
         ) AS known (o)`,
      [placement.schema],
    );
    return rows[0]?.oids ?? [];
  });
}
