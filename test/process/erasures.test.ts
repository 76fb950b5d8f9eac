/** Erasures of a service at work: deep ones leave no bytes, and one goes on after a kill. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { OwnServerTenancy } from '../../src/tenancy/own-server-tenancy.js';
import type { ErasureResult, Upkeep } from '../../src/contract/wire/subjects.js';
import { declare, erased } from '../support/people.js';
import { startOwnService, type TestService } from '../support/service.js';

let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
afterAll(() => service.close());

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
  expect((done.result as ErasureResult).places).toContainEqual({ place: 'quarantine', count: 1 });
  expect(await project.rows(`SELECT tablename FROM pg_stats WHERE most_common_vals::text LIKE '%zzmarked%'`)).toEqual(
    [],
  );
  await files.stop(server);
  expect(filesWith(data, 'zzmarkedpersonqq')).toEqual([]);
});
