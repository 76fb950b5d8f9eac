/** Whoever is erased while the project moves is not in the project on its new server. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Move } from '../../src/contract/wire/moves.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { ADA, BOB, erase, erased, numbersIn, WITHOUT_ADA, withPeople } from '../support/people.js';
import { connected } from '../support/postgres.js';
import { expectFailure, startOwnService, type TestProject, type TestService } from '../support/service.js';

let other: AddedServer;
let service: TestService;
let admin: string;
beforeAll(async () => {
  other = await startAddedServer(18, ['wal_level=logical']);
  const rights = 'ALTER ROLE cdp REPLICATION; GRANT SET ON PARAMETER session_replication_role TO cdp';
  await connected(other.connection, (client) => client.query(rights));
  service = await startOwnService();
  admin = (await service.engine.tokens.create(null)).token;
  const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
  const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
  if (added.status !== 201) throw new Error(added.text);
});
afterAll(async () => {
  await service.close();
  await other.close();
});

const shop = async (): Promise<TestProject> => withPeople(await service.project(undefined, 'default'));

const admins = async (method: string, path: string, body?: object): Promise<Move> =>
  (await service.call(method, `/api/cdp/admin/${path}`, { token: admin, ...(body && { body }) })).body.move as Move;

const startMove = async ({ name }: TestProject, mode: 'copy' | 'stream'): Promise<string> =>
  (await admins('POST', `projects/${name}/move`, { to: 'eu-1', mode })).id;

const seen = (id: string): Promise<Move> => admins('GET', `moves/${id}`);

const hasMoved = async (id: string): Promise<void> => {
  await vi.waitFor(async () => expect((await seen(id)).ended_at).not.toBeNull(), { timeout: 120_000, interval: 100 });
  expect(await seen(id)).toMatchObject({ state: 'done', fallback: null });
};

it('erased when the rows are copied already: the stream erases them there, too', async () => {
  const project = await shop();
  await project.rows('ALTER TABLE events ADD PRIMARY KEY (id)');
  const moveRows = service.engine.moves.rows;
  const fence = moveRows.fence.bind(moveRows);
  let response: Awaited<ReturnType<typeof erase>> | undefined;
  const spy = vi.spyOn(moveRows, 'fence').mockImplementationOnce(async (id) => {
    response = await erase(project);
    return fence(id);
  });
  await hasMoved(await startMove(project, 'stream'));
  spy.mockRestore();
  expect(response?.status, response?.text).toBe(200);
  expect(await numbersIn(project)).toEqual(WITHOUT_ADA);
  expect(await project.rows('SELECT count(*)::int AS n FROM _cdp.erasures')).toEqual([{ n: 1 }]);
});

it('by a job that the end of writes interrupts: it is done on the new server; meanwhile, no erasure begins', async () => {
  const project = await shop();
  await project.rows(`INSERT INTO events (user_id) SELECT '1001' FROM generate_series(1, 1500);
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF current_setting('cluster_name') LIKE 'cdp-%' THEN PERFORM pg_sleep(120); END IF; RETURN NULL; END $$;
    CREATE TRIGGER slow BEFORE DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION slow()`);
  const job = erased(project);
  job.catch(() => {});
  const isSlow = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event = 'PgSleep'`;
  await vi.waitFor(async () => expect(await project.rows(isSlow)).toEqual([{ n: 1 }]), { timeout: 30_000 });
  const id = await startMove(project, 'copy');
  await vi.waitFor(async () => expect((await seen(id)).state).toBe('fencing'), { timeout: 30_000, interval: 20 });
  expectFailure(await erase(project, BOB), 503, 'database_unavailable');
  await hasMoved(id);
  expect(await job).toMatchObject({ state: 'done', upkeep: { second_look: 0 } });
  expect(await numbersIn(project)).toEqual(WITHOUT_ADA);
  const token = await project.tokenWith('subjects:erase');
  const list = (await project.call('GET', '/api/cdp/subjects/erasures', { token })).body.erasures;
  expect(list).toMatchObject([{ state: 'done' }]);
  expect((await project.call('POST', '/api/cdp/subjects/find', { body: ADA })).body.message).toBe('0 rows in 0 tables');
});
