/** Erasures of a service at work: deep ones leave no bytes, and one goes on after a kill. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import type { ErasureOutcome, Upkeep } from '../../src/contract/wire/subjects.js';
import { declare, erased } from '../support/people.js';
import { endEverything, eventually, preparedDataDir, runProgram, startServe } from '../support/program.js';
import { call, startOwnService, type TestService } from '../support/service.js';

let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const MARKED = 'zzmarkedpersonqq@example.com';

/** The files below a folder that contain the text. */
const filesWith = (folder: string, text: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(text));

it('leaves no bytes in the data directory after a deep erasure', async () => {
  const project = await service.project();
  await project.rows(`
    CREATE TABLE people (email text, note jsonb);
    CREATE INDEX ON people (email); CREATE INDEX ON people USING gin (note);
    CREATE TABLE solo (email text);
    INSERT INTO people SELECT '${MARKED}', '{"by": "${MARKED}"}' FROM generate_series(1, 800);
    INSERT INTO people SELECT n || '@example.com', '{}' FROM generate_series(1, 5000) n;
    INSERT INTO solo VALUES ('${MARKED}')`);
  await project.rows('ANALYZE people');
  await project.rows('ANALYZE solo');
  await project.call('POST', '/api/cdp/data/solo?on_error=quarantine', { body: [{ email: MARKED, none: 1 }] });
  const table = { columns: { email: 'email' }, erase: 'delete' } as const;
  await declare(project, { person: { identifiers: { email: {} }, tables: { people: table, solo: table } } });
  const { files } = service.engine.servers.defaultTenancy as OwnServerTenancy;
  const { server } = (await service.engine.projects.get(project.name)).placement;
  const { data } = await files.folderOf(server);
  expect(filesWith(data, MARKED)).not.toEqual([]);

  const done = await erased(project, { person: { email: MARKED } }, '?deep=true');
  expect(done.state, String(done.error)).toBe('done');
  const { steps, second_look } = done.upkeep as Upkeep;
  expect(steps.filter(({ problem }) => problem !== null)).toEqual([]);
  expect(second_look).toBe(0);
  expect((done.result as ErasureOutcome).places).toContainEqual({ place: 'quarantine', count: 1 });
  expect(await project.rows(`SELECT tablename FROM pg_stats WHERE most_common_vals::text LIKE '%zzmarked%'`)).toEqual(
    [],
  );
  await files.stop(server);
  expect(filesWith(data, 'zzmarkedpersonqq')).toEqual([]);
});

it('goes on after a kill, and is done once', async () => {
  const dataDir = await preparedDataDir();
  let serve = await startServe(['--data-dir', dataDir, '--port', '0']);
  const ended = await runProgram([
    ...['token', 'create', '--project', 'default', '--data-dir', dataDir, '--json'],
    ...['--scopes', 'schema:read,schema:write,data:write,sql:read,sql:write,subjects:erase'],
  ]);
  const token = /cdp_[A-Za-z0-9]+/.exec(ended.stdout)?.[0] ?? '';
  const send = (method: string, path: string, body?: object) =>
    call(serve.url, method, path, { token, ...(body && { body }) });
  const rows = async (sql: string) => {
    const response = await send('POST', '/api/cdp/sql', { sql });
    expect(response.status, response.text).toBe(200);
    return response.body.rows;
  };
  await rows(`CREATE TABLE people (email text);
    INSERT INTO people SELECT '${MARKED}' FROM generate_series(1, 3000);
    INSERT INTO people VALUES ('bob@example.com');
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.002); RETURN OLD; END';
    CREATE TRIGGER slow BEFORE DELETE ON people FOR EACH ROW EXECUTE FUNCTION slow()`);
  const people = { columns: { email: 'email' }, erase: 'delete' };
  await send('PUT', '/api/cdp/subjects', { subjects: { person: { identifiers: { email: {} }, tables: { people } } } });
  const begun = await send('POST', '/api/cdp/subjects/erase', { person: { email: MARKED } });
  expect(begun.status, begun.text).toBe(202);
  const isErasing = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE query LIKE 'DELETE FROM %people%'";
  await eventually('the transaction runs', async () => JSON.stringify(await rows(isErasing)) === '[{"n":1}]');
  await serve.end('SIGKILL');

  serve = await startServe(['--data-dir', dataDir, '--port', '0']);
  const erasure = async () => (await send('GET', String(begun.body.address))).body.erasure as Record<string, unknown>;
  await eventually('it has ended', async () => /done|failed/.test(String((await erasure()).state)));
  expect(await erasure()).toMatchObject({
    state: 'done',
    result: { tables: [{ table: 'people', deleted: 3_000, changed: 0 }] },
    upkeep: { second_look: 0 },
  });
  expect(await rows('SELECT email FROM people')).toEqual([{ email: 'bob@example.com' }]);
  expect(await rows('SELECT count(*)::int AS n FROM _cdp.erasures')).toEqual([{ n: 1 }]);
  await serve.end();
});
