/**
 * Projects that clients write to move between two servers, each held in another state of its move; then the service,
 * one of the servers or the control database is killed. Every response is true of the one place where the project lives,
 * and nothing is left anywhere else.
 */
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { MoveMode, MoveState } from '../../src/contract/moves.js';
import { ADVISORY_LOCKS } from '../../src/tenancy/locks.js';
import { slotOf } from '../../src/moves/stream.js';
import type { AddedServer } from '../support/added-server.js';
import { endEverything, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';
import { onDatabase } from './support/stage.js';
import { patiently, type Shop, stored, ThreeServers } from './support/three-servers.js';

let fleet: ThreeServers;
beforeAll(async () => {
  fleet = await ThreeServers.start();
});
afterAll(async () => {
  await fleet.close();
  await endEverything();
});

/** A move that waits for somebody at that state. */
interface Held {
  readonly shop: Shop;
  readonly id: string;
  readonly state: MoveState;
  readonly release: () => Promise<void>;
}

let turn = 0;

/** An instance carries out four at once. */
const beginMove = (shop: Shop, mode: MoveMode): Promise<string> => fleet.beginMove(shop, mode, turn++ % 2);

/** A session of a server's superuser, which holds a move up until it ends. */
async function holding(server: AddedServer, database: string, ...statements: string[]): Promise<() => Promise<void>> {
  const client = new pg.Client({ ...server.connection, database });
  // Its server may be killed.
  client.on('error', () => {});
  await client.connect();
  for (const statement of statements) await client.query(statement);
  const release = () => client.end().catch(() => {});
  holds.push(release);
  return release;
}

/** What a failed test has left. */
const holds: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const release of holds.splice(0)) await release();
});

const REPAIR = ['BEGIN', 'LOCK TABLE _cdp.migrations IN SHARE UPDATE EXCLUSIVE MODE'];
/** With it a database cannot be dropped. */
const lockDatabase = (database: string) =>
  `SELECT pg_advisory_lock(hashtextextended('${database}', ${ADVISORY_LOCKS.database}))`;
const LOCK_TABLE = ['BEGIN', 'LOCK TABLE data.held'];
/** A slot waits for all transactions that run when it is made. */
const RUN = ['BEGIN', 'SELECT pg_current_xact_id()'];

const isAt = (id: string, state: MoveState) =>
  patiently(`it is ${state}`, async () => {
    const move = await fleet.move(id);
    if (move.hasEnded) throw new Error(`It is ${move.state}, not ${state}: ${move.reason ?? move.fallback}`);
    return move.state === state;
  });

/** Postgres copies no template that somebody uses: it is tried for some seconds. The roles are there. */
async function preparing(shop: Shop, mode: MoveMode): Promise<Held> {
  const [{ name } = { name: '' }] = await fleet.query<{ name: string }>(
    `SELECT 'cdp_template_' || id AS name FROM cdp.instance`,
  );
  const release = await holding(fleet.b, name);
  const id = await beginMove(shop, mode);
  const { target } = await fleet.move(id);
  const login = { ...fleet.b.connection, database: 'postgres' };
  const client = new pg.Client(login);
  await client.connect();
  await patiently('its roles are there', async () => {
    if ((await fleet.move(id)).hasEnded) throw new Error(String((await fleet.move(id)).reason));
    const { rowCount } = await client.query('SELECT FROM pg_roles WHERE rolname = $1', [target.writer]);
    return rowCount === 1;
  }).finally(() => client.end());
  return { shop, id, state: 'preparing', release };
}

/** Begins a move of a project that lives on `a` to `b`, and holds it. */
const HOLD: Record<string, (shop: Shop, database: string) => Promise<Held>> = {
  'fencing, to be copied': async (shop, database) => {
    const { id, release } = await preparing(shop, 'copy');
    const repair = await holding(fleet.a, database, ...REPAIR);
    await release();
    await isAt(id, 'fencing');
    return { shop, id, state: 'fencing', release: repair };
  },
  copying: async (shop, database) => {
    const release = await holding(fleet.a, database, ...LOCK_TABLE);
    const id = await beginMove(shop, 'copy');
    await isAt(id, 'copying');
    return { shop, id, state: 'copying', release };
  },
  verifying: async (shop, database) => {
    const { id, release } = await held('copying', shop);
    const repair = await holding(fleet.a, database, ...REPAIR);
    await release();
    await isAt(id, 'verifying');
    return { shop, id, state: 'verifying', release: repair };
  },
  undoing: async (shop, database) => {
    const { id, release } = await held('copying', shop);
    const repair = await holding(fleet.a, database, ...REPAIR);
    await release();
    await fleet.send('DELETE', `moves/${id}`);
    await isAt(id, 'undoing');
    return { shop, id, state: 'undoing', release: repair };
  },
  'fencing, to be streamed': async (shop, database) => {
    const id = await beginMove(shop, 'stream');
    await isAt(id, 'streaming');
    const repair = await holding(fleet.a, database, ...REPAIR);
    await isAt(id, 'fencing');
    return { shop, id, state: 'fencing', release: repair };
  },
  switched: async (shop, database) => {
    const release = await holding(fleet.a, 'cdp', lockDatabase(database));
    const id = await beginMove(shop, 'copy');
    await isAt(id, 'switched');
    return { shop, id, state: 'switched', release };
  },
  streaming: async (shop, database) => {
    const release = await holding(fleet.a, database, ...RUN);
    const id = await beginMove(shop, 'stream');
    const slot = slotOf({ database });
    await onServer(fleet.a, 'its slot is being made', 'SELECT FROM pg_replication_slots WHERE slot_name = $1', slot);
    return { shop, id, state: 'streaming', release };
  },
  preparing: (shop) => preparing(shop, 'copy'),
};

/**
 * Those that take their time come first, since nothing is held forever; those that hold up others as well come alone,
 * and last.
 */
const IN_TURN = [
  ['verifying', 'fencing, to be streamed', 'switched'],
  ['fencing, to be copied'],
  ['copying', 'undoing'],
  ['streaming'],
  ['preparing'],
];

async function onServer(server: AddedServer, what: string, question: string, value: string): Promise<void> {
  const client = new pg.Client(server.connection);
  await client.connect();
  await patiently(what, async () => (await client.query(question, [value])).rowCount === 1);
  await client.end();
}

async function held(where: string, shop: Shop): Promise<Held> {
  const { server, database } = await fleet.placeOf(shop);
  expect(server).toBe('a');
  return (HOLD[where] as (typeof HOLD)[string])(shop, database);
}

const VICTIMS: Record<string, () => Promise<void>> = {
  'the service': async () => {
    await Promise.all(fleet.services.map((service) => service.end('SIGKILL')));
    await fleet.startServices();
  },
  'the server that they leave': async () => {
    await fleet.a.kill();
    await fleet.a.restart();
  },
  'the server that they go to': async () => {
    await fleet.b.kill();
    await fleet.b.restart();
  },
  'the control database': async () => {
    await fleet.control.kill();
    await fleet.control.restart();
  },
};

/** They have moved, and nobody writes to them any more. */
const closed = new Set<Shop>();

it.each(Object.entries(VICTIMS))(
  'survives the kill of %s in each state of a move',
  async (victim, kill) => {
    const at = await Promise.all(fleet.shops.map((shop) => fleet.placeOf(shop)));
    const shops = fleet.shops.filter((_, i) => at[i]?.server === 'a');
    const missing = IN_TURN.flat().slice(shops.length);
    shops.push(...(await Promise.all(missing.map(() => fleet.shop()))));
    const moves: Held[] = [];
    const begin = async (where: string) => void moves.push(await held(where, shops.pop() as Shop));
    for (const states of IN_TURN) await Promise.all(states.map(begin));
    for (const { id, state } of moves) expect(await fleet.move(id)).toMatchObject({ state, hasEnded: false });

    await kill();
    await Promise.all(moves.map(({ release }) => release()));
    const ends: string[] = [];
    const moved: Shop[] = [];
    for (const { shop, id, state } of moves) {
      await patiently(`the move of ${shop.name} has ended`, async () => (await fleet.move(id)).hasEnded);
      const { state: end } = await fleet.move(id);
      expect((await fleet.placeOf(shop)).server).toBe(end === 'done' ? 'b' : 'a');
      ends.push(`${state}: ${end}`);
      if (end === 'done') moved.push(shop);
    }
    console.log(`${victim} was killed:`, ends.join(', '));
    await Promise.all(fleet.shops.filter((shop) => !closed.has(shop)).map(stored));
    await nothingIsLeft();
    await Promise.all(moved.map((shop) => shop.clients.stop()));
    for (const shop of moved) closed.add(shop);
  },
  400_000,
);

it('every response is true of the place where its project lives', () => fleet.compare());

/** What cannot be cleared away at once is tried again every few seconds. */
const nothingIsLeft = () => vi.waitFor(async () => expect(await fleet.leftBehind()).toEqual([]), { timeout: 120_000 });

it.each<MoveState>(['switched', 'done'])(
  'survives the suspension of an instance until a move is %s',
  async (state) => {
    const [awake, sleeper] = fleet.services as [RunningService, RunningService];
    const shop = await fleet.shop({ url: () => sleeper.url, count: 4, pauseMs: 0, patienceMs: 120_000 });
    const { database } = await fleet.placeOf(shop);
    const release = state === 'switched' ? await holding(fleet.a, 'cdp', lockDatabase(database)) : null;
    sleeper.process.kill('SIGSTOP');
    const id = await fleet.beginMove(shop, 'copy', fleet.services.indexOf(awake));
    await patiently(`it is ${state}`, async () => (await fleet.move(id)).state === state);
    const rows = state === 'switched' ? await rowsOnSource(database) : null;
    const { token } = shop;
    const body = { sql: "INSERT INTO held (note) VALUES ('new')" };
    await patiently('it is written to', async () => {
      const response = await call(awake.url, 'POST', '/api/cdp/sql', { token, body });
      return response.status === 200;
    });
    const question = { sql: 'SELECT note FROM held', read_only: true };
    const read = call(sleeper.url, 'POST', '/api/cdp/sql', { token, body: question });
    sleeper.process.kill('SIGCONT');
    const { status, body: found, text } = await read;
    if (status !== 503) expect(found.rows, text).toEqual([{ note: 'new' }]);
    await stored(shop);
    if (rows !== null) expect(await rowsOnSource(database)).toBe(rows);
    await release?.();
    await patiently('it is done', async () => (await fleet.move(id)).state === 'done');
    await nothingIsLeft();
    await fleet.compare();
  },
  400_000,
);

const rowsOnSource = (database: string): Promise<number> =>
  onDatabase({ ...fleet.a.connection, database }, async (client) => {
    const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM data.ledger');
    return rows[0]?.n ?? 0;
  });
