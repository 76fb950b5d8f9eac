/** Moves of projects that are streamed while clients write, and those that fall back to a copy. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { cleanUpStream, PUBLICATION, restartForStream, slotOf, streamDatabase } from '../../src/moves/stream.js';
import type { Move } from '../../src/contract/wire/moves.js';
import { sql } from '../../src/pg/index.js';
import { inDatabase } from '../../src/tenancy/tenancy.js';
import { serverRefOf } from '../../src/tenancy/control/server-rows.js';
import { tryWithProjectLock } from '../../src/tenancy/control/project-lock.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { eventually } from '../support/program.js';
import {
  inProject,
  startOwnService,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';

const PROJECTS = '/api/cdp/admin/projects';
const WRITERS = 4;

let other: AddedServer;
beforeAll(async () => {
  other = await startAddedServer(18, ['wal_level=logical']);
  await connected(other.connection, (client) => client.query('ALTER ROLE cdp REPLICATION'));
});
afterAll(() => other.close());

const services: TestService[] = [];
afterAll(async () => {
  for (const service of services) await service.close();
});

let service: TestService;
let admin: string;
let project: TestProject;

const open = async (start: () => Promise<TestService>): Promise<void> => {
  service = await start();
  services.push(service);
  service.engine.moves.startRecovering();
  admin = (await service.engine.tokens.create(null)).token;
  const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
  const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
  if (added.status !== 201) throw new Error(added.text);
};

const begin = async (): Promise<void> => {
  project = await service.project(undefined, 'default');
  await project.table('visits', { page: 'TEXT', count: 'INTEGER' });
};

const placed = async () => (await service.engine.projects.get(project.name)).placement;

const startMove = async (to: string): Promise<string> => {
  const body = { to, mode: 'stream', verify: 'full' };
  const response = await service.call('POST', `${PROJECTS}/${project.name}/move`, { token: admin, body });
  expect(response.status, response.text).toBe(202);
  return (response.body.move as Move).id;
};

const seen = async (id: string): Promise<Move> =>
  (await service.call('GET', `/api/cdp/admin/moves/${id}`, { token: admin })).body.move as Move;

const ended = async (id: string): Promise<Move> => {
  await vi.waitFor(async () => expect((await seen(id)).ended_at).not.toBeNull(), { timeout: 150_000, interval: 250 });
  return seen(id);
};

const insert = (page: string, key: string): Promise<TestResponse> =>
  project.call('POST', '/api/cdp/data/visits', { body: [{ page, count: 1 }], headers: { 'idempotency-key': key } });

/** What a stream needs, where the project lives now. */
const leftHere = async (): Promise<unknown[]> => {
  const { rows } = await inProject(service, await placed(), (client) =>
    client.query<{
      name: string;
    }>(`SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT pubname FROM pg_publication
      UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^b_'`),
  );
  return rows;
};

const leftThere = (): Promise<unknown[]> =>
  connected(other.connection, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `SELECT datname::text AS name FROM pg_database WHERE datname LIKE 'd\\_%' UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^[wrb]_'
       UNION ALL SELECT slot_name FROM pg_replication_slots`,
    );
    return rows;
  });

describe('from servers of their own', () => {
  beforeAll(() => open(startOwnService));
  afterEach(() => service.engine.projects.delete(project.name, BY_ITSELF));

  it('loses and duplicates no answered write on the way there and back', async () => {
    await begin();
    await project.rows(`CREATE TABLE counted (id integer PRIMARY KEY, n integer);
      INSERT INTO counted SELECT n, 0 FROM generate_series(1, ${WRITERS}) n; CREATE SEQUENCE numbers`);
    const stored: string[] = [];
    let isOver = false;
    const writer = async (id: number): Promise<number> => {
      let updates = 0;
      for (let n = 0; !isOver; n++) {
        const name = `${id}-${n}`;
        // The same key until there is a response: it is stored once, whatever became of the first attempts.
        while ((await insert(name, name)).status !== 201) await sleep(20);
        stored.push(name);
        const sql = `UPDATE counted SET n = n + 1 WHERE id = ${id}; SELECT nextval('numbers')`;
        const { status } = await project.call('POST', '/api/cdp/sql', { body: { sql } });
        if (status === 200) updates++;
        else if (status !== 503) throw new Error(`The status is ${status}`);
        // So that the stream catches up on a slow machine, too.
        await sleep(50);
      }
      return updates;
    };
    const writers = Promise.all(Array.from({ length: WRITERS }, (_, i) => writer(i + 1))).finally(
      () => (isOver = true),
    );
    writers.catch(() => {});
    const pauses: (number | null)[] = [];
    for (const to of ['eu-1', 'default']) {
      const before = stored.length;
      await eventually('batches are stored', () => Promise.resolve(stored.length > before + 10));
      const move = await ended(await startMove(to));
      expect(move).toMatchObject({ state: 'done', mode: 'stream', fallback: null, reason: null, to });
      pauses.push(move.pause_ms);
      expect(await leftHere()).toEqual([]);
    }
    const before = stored.length;
    await eventually('batches are stored', () => Promise.resolve(stored.length > before));
    isOver = true;
    const updates = await writers;
    console.log('streamed:', { stored: stored.length, pauses });
    const pages = (await project.rows('SELECT page FROM visits')).map(({ page }) => page);
    expect(pages.sort()).toEqual([...stored].sort());
    const counts = (await project.rows('SELECT n FROM counted ORDER BY id')).map(({ n }) => n as number);
    // An update that was refused while its response was under way may have been made.
    counts.forEach((count, i) => expect(count).toBeGreaterThanOrEqual(updates[i] ?? 0));
    const [{ next } = {}] = await project.rows(`SELECT nextval('numbers')::int AS next`);
    expect(next).toBeGreaterThan(updates.reduce((sum, count) => sum + count));
    expect(await leftThere()).toEqual([]);
  });

  it('falls back to a copy if the schema changes meanwhile, and says why', async () => {
    await begin();
    const id = await startMove('eu-1');
    await eventually('it is streaming', async () => {
      const published = inProject(service, await placed(), (client) => client.query('SELECT FROM pg_publication'));
      // Its server is restarted.
      return published.then(({ rowCount }) => rowCount === 1).catch(() => false);
    });
    await project.rows('CREATE TABLE later (a integer PRIMARY KEY)');
    const move = await ended(id);
    expect(move).toMatchObject({ state: 'done', mode: 'stream', reason: null });
    expect(move.fallback).toMatch(/^its schema was changed meanwhile: .* \(writes are refused for about \d+ s\)$/);
    expect(await project.rows('SELECT * FROM later')).toEqual([]);
  });

  it('leaves nothing behind if it is canceled', async () => {
    await begin();
    const id = await startMove('eu-1');
    await eventually('it is streaming', async () => (await seen(id)).state === 'streaming');
    await service.call('DELETE', `/api/cdp/admin/moves/${id}`, { token: admin });
    expect(await ended(id)).toMatchObject({ state: 'undone', reason: 'The move was canceled', pause_ms: null });
    await eventually('it takes writes', async () => (await insert('a', 'a')).status === 201);
    expect(await leftHere()).toEqual([]);
    expect(await leftThere()).toEqual([]);
  });

  it('tells of an error while writes are ended as it is, and does not take it for a reason to copy', async () => {
    await begin();
    const { engine } = service;
    const placement = await placed();
    const row = await engine.control.servers.get('eu-1');
    if (row === null) throw new Error('It was added');
    const there = engine.servers.tenancyOf(serverRefOf(row));
    const [source, target] = [
      { tenancy: engine.servers.tenancyOf(placement), placement },
      { tenancy: there, placement: await there.newPlacement() },
    ];
    await there.create(target.placement);
    const endWrites = () =>
      inDatabase(source.tenancy, placement, async (session) => {
        await session.query(sql`SELECT 1 / 0`);
      });
    const options = {
      source,
      target,
      verify: 'counts',
      signal: new AbortController().signal,
      onProgress: () => {},
    } as const;
    await expect(streamDatabase({ ...options, endWrites })).rejects.toMatchObject({ sqlstate: '22012' });
    await there.drop(target.placement);
    expect(await leftHere()).toEqual([]);
    expect(await leftThere()).toEqual([]);
  });

  it('is undone if its process was killed while streaming, including what it left on the source', async () => {
    await begin();
    const { engine } = service;
    const placement = await placed();
    const row = await engine.control.servers.get('eu-1');
    if (row === null) throw new Error('It was added');
    const target = await engine.servers.tenancyOf(serverRefOf(row)).newPlacement();
    const source = { tenancy: engine.servers.tenancyOf(placement), placement };
    const id = randomUUID();
    await tryWithProjectLock(engine.control.address, project.id, async () => {
      const entry = { id, projectId: project.id, source: placement, target, mode: 'stream' as const };
      expect(await engine.moves.rows.insert(entry)).toBeNull();
      await engine.moves.rows.advance(id, 'streaming');
      await restartForStream(source);
      await eventually('it answers', async () => (await insert('a', 'a')).status === 201);
      await inProject(service, placement, (client) =>
        client.query(`CREATE PUBLICATION ${PUBLICATION} FOR TABLE data.visits`),
      );
    });
    // A session that has not ended with its process yet.
    const slot = inProject(service, placement, (client) =>
      client.query(
        `SELECT pg_create_logical_replication_slot('${slotOf(placement)}', 'pgoutput', true), pg_sleep(600)`,
      ),
    );
    slot.catch(() => {});
    await eventually('it is settled', async () => (await seen(id)).ended_at !== null);
    expect(await seen(id)).toMatchObject({ state: 'undone' });
    await cleanUpStream(source);
    expect(await leftHere()).toEqual([]);
    expect((await insert('b', 'b')).status).toBe(201);
  });
});

describe('from a shared server', () => {
  beforeAll(() => open(startTestService));
  afterEach(() => service.engine.projects.delete(project.name, BY_ITSELF));

  it('copies if the WAL of the server does not contain enough, and the plan says so in advance', async () => {
    await begin();
    const { body } = await service.call('GET', `${PROJECTS}/${project.name}/move?to=eu-1&mode=stream`, {
      token: admin,
    });
    expect(body).toMatchObject({ obstacles: [] });
    const why = /^the setting wal_level of its server is not logical \(writes are refused for about \d+ s\)$/;
    expect(body.fallback).toMatch(why);
    const move = await ended(await startMove('eu-1'));
    expect(move).toMatchObject({ state: 'done', mode: 'stream', reason: null });
    expect(move.fallback).toMatch(why);
  });
});
