/**
 * A process that carries out a move loses the project's lock, as in a restart of the control database, or another
 * process cancels the move, or finds and undoes it: whatever the first one does then, the project accepts writes at its old place,
 * and nothing of the move is left.
 */
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { removeLostServer } from '../../src/engine/servers/change-servers.js';
import { type Service, startService } from '../../src/service.js';
import { lowerFence, raiseFence } from '../../src/moves/fence.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { eventually } from '../support/program.js';
import { onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

let other: AddedServer;
let service: TestService;
let second: Service;
let project: TestProject;
let home: Placement;

beforeAll(async () => {
  other = await startAddedServer(18);
  service = await startTestService();
  const token = (await service.engine.tokens.create(null)).token;
  const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
  const added = await service.call('POST', '/api/cdp/admin/servers', { token, body });
  if (added.status !== 201) throw new Error(added.text);
  second = await startService(service.config, pino({ level: 'silent' }));
  project = await service.project('shop', 'default');
  await project.table('visits', { page: 'TEXT' });
  home = (await service.engine.projects.get('shop')).placement;
  // The template is made for the first project of a server.
  const there = await service.project('first', 'eu-1');
  await service.engine.projects.delete(there.name, BY_ITSELF);
});

afterAll(async () => {
  await second.close();
  await service.close();
  await other.close();
});

const SLOW_WRITE = `INSERT INTO visits VALUES ('slow'); SELECT pg_sleep(4)`;

/** Databases and roles of projects, and of backups. */
const THERE = `SELECT datname AS name FROM pg_database WHERE datname ~ '^d_'
  UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^[wrb]_'`;

const leftThere = (): Promise<string[]> =>
  connected(other.connection, async (client) =>
    (await client.query<{ name: string }>(THERE)).rows.map(({ name }) => name),
  );

const insert = () => project.call('POST', '/api/cdp/data/visits', { body: [{ page: 'a' }] });

const stateOf = async (): Promise<string | undefined> =>
  (await service.engine.moves.list('shop')).find(({ endedAt }) => endedAt === null)?.state;

/** A session of the superuser that holds something up until it ends. */
async function holding(connection: pg.ClientConfig, ...statements: string[]): Promise<() => Promise<void>> {
  const client = new pg.Client(connection);
  // The end of a failed test ends it.
  client.on('error', () => {});
  await client.connect();
  for (const statement of statements) await client.query(statement);
  return () => client.end();
}

const atHome = () => ({ ...service.server.connection, database: home.database });
const onTemplate = () => ({ ...other.connection, database: `cdp_template_${service.engine.control.instanceId}` });
const LOCK_TABLE = ['BEGIN', 'LOCK TABLE data.visits'];
const LOCK_REPAIR = ['BEGIN', 'LOCK TABLE _cdp.migrations IN SHARE UPDATE EXCLUSIVE MODE'];

/** The states in which a move can be held up. */
type Stop = 'preparing' | 'fencing' | 'copying' | 'verifying';

/** What keeps a move in a state, until it is called. */
const HOLD: Readonly<Record<Stop, () => Promise<() => Promise<unknown>>>> = {
  // Postgres does not copy a template that somebody uses.
  preparing: () => holding(onTemplate()),
  fencing: async () => {
    const write = project.call('POST', '/api/cdp/sql', { body: { sql: SLOW_WRITE } });
    await new Promise((resolve) => setTimeout(resolve, 200));
    return () => write;
  },
  copying: () => holding(atHome(), ...LOCK_TABLE),
  verifying: async () => {
    const release = await holding(atHome(), ...LOCK_TABLE);
    const repair = await eventually('rows are copied', async () => (await stateOf()) === 'copying' && release).then(
      () => holding(atHome(), ...LOCK_REPAIR),
    );
    await release();
    return repair;
  },
};

/** Begins a move, and stops it in a state until `release` is called. */
async function stoppedWhile(state: Stop): Promise<{ id: string; release: () => Promise<unknown> }> {
  const isEarly = state === 'preparing' || state === 'fencing';
  const held = isEarly ? await HOLD[state]() : undefined;
  const options = { mode: 'copy', verify: 'counts', maxPauseMs: null } as const;
  const { id } = await service.engine.moves.start('shop', 'eu-1', options, BY_ITSELF);
  const release = held ?? (await HOLD[state]());
  await eventually(`it is ${state}`, async () => (await stateOf()) === state);
  return { id, release };
}

const loseLock = () =>
  onServer(service.server, async (client) => {
    const { rowCount } = await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
         AND (classid::bigint << 32) | objid::bigint = hashtextextended($1, 0)`,
      [project.id],
    );
    expect(rowCount).toBe(1);
  });

it.each<[Stop]>([['preparing'], ['fencing'], ['copying'], ['verifying']])(
  'losing the lock while it is %s leaves nothing of the move, and the project accepts writes',
  async (state) => {
    const { moves } = service.engine;
    const { id, release } = await stoppedWhile(state);
    await loseLock();
    const settled = second.engine.moves.recover();
    // These do not wait for what holds the first process up.
    if (state === 'fencing' || state === 'copying') await settled;
    await release();
    await settled;
    await eventually('it is undone', async () => (await moves.get(id)).state === 'undone');
    await eventually('it takes writes', async () => (await insert()).status === 201);
    await eventually('the first process has ended its part', () => Promise.resolve(moves.underWay === 0));
    expect(await leftThere()).toEqual([]);
    expect((await insert()).status).toBe(201);
    const roles = await onServer(service.server, (client) =>
      client.query('SELECT rolname FROM pg_roles WHERE rolname = ANY ($1) AND rolcanlogin', [
        [home.writer, home.reader, home.writer.replace('w_', 'b_')],
      ]),
    );
    expect(roles.rows).toHaveLength(2);
    expect(await service.engine.projects.examine(await service.engine.projects.get('shop'))).toEqual([]);
  },
);

it.each<[Stop]>([['preparing'], ['fencing'], ['copying'], ['verifying']])(
  'a move that another instance cancels while it is %s does not happen',
  async (state) => {
    const { moves } = service.engine;
    const { id, release } = await stoppedWhile(state);
    expect((await second.engine.moves.cancel(id)).state).toBe('undoing');
    // Another time changes nothing.
    expect((await second.engine.moves.cancel(id)).reason).toBe('The move was canceled');
    await release();
    await eventually('it has ended', async () => (await moves.get(id)).endedAt !== null);
    expect(await moves.get(id)).toMatchObject({ state: 'undone', reason: 'The move was canceled' });
    await expect(second.engine.moves.cancel(id)).rejects.toMatchObject({ code: 'invalid_request' });
    await eventually('it takes writes', async () => (await insert()).status === 201);
    expect((await service.engine.projects.get('shop')).placement).toEqual(home);
    expect(await leftThere()).toEqual([]);
  },
);

it('a process that stops while it changes a fence does not block others from changing it', async () => {
  const tenancy = service.engine.servers.tenancyOf(home);
  let stopped: Promise<boolean> | undefined;
  const goOn = await new Promise<(isStill: boolean) => void>((isLocked) => {
    stopped = raiseFence(tenancy, home, 'writer', () => new Promise(isLocked));
    stopped.catch(() => {});
  });
  expect(await lowerFence(tenancy, home, () => Promise.resolve(true))).toBe(true);
  goOn(true);
  await expect(stopped).rejects.toThrow();
  expect((await insert()).status).toBe(201);
});

it('a process whose move failed leaves its target alone once another has removed the lost server', async () => {
  const { moves } = service.engine;
  const release = await holding(atHome(), ...LOCK_TABLE);
  const options = { mode: 'copy', verify: 'counts', maxPauseMs: null } as const;
  const { id } = await moves.start('shop', 'eu-1', options, BY_ITSELF);
  await eventually('it is copying', async () => (await stateOf()) === 'copying');
  await other.kill();
  await release();
  await eventually('it has failed', () => Promise.resolve(moves.underWay === 0));
  await moves.recover();
  expect(moves['unrecovered'].has(id)).toBe(true);
  await removeLostServer(second.engine, 'eu-1', BY_ITSELF);
  expect((await moves.get(id)).state).toBe('undone');
  await moves.recover();
  // It cannot be stopped otherwise.
  await other.restart();
  expect(moves['unrecovered'].has(id)).toBe(false);
  expect((await insert()).status).toBe(201);
});
