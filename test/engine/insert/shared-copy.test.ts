/** Batches that share a COPY in a real Postgres: what ends one of them does not end the others. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { EngineError } from '../../../src/contract/errors.js';
import { arrayOfRecords } from '../../../src/engine/insert/batch.js';
import { insertRecords } from '../../../src/engine/insert/insert.js';
import { NEVER_ABORTED } from '../../../src/db/backend-request.js';
import type { ProjectRow } from '../../../src/tenancy/control/control-rows.js';
import { inProject, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let row: ProjectRow;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('shared', { n: 'INTEGER' });
  row = await service.engine.projects.get(project.name);
  await insert(0);
});
afterAll(() => service.close());

const DEFAULTS = { returnIds: false, key: null, upsert: null, quarantine: false };

/** Batches inserted in one turn of the event loop share a COPY. */
async function insert(n: number, signal = NEVER_ABORTED): Promise<void> {
  const admitted = service.engine.admit(row, 'typed');
  const body = arrayOfRecords(Buffer.from(JSON.stringify([{ n }])));
  await insertRecords(admitted, 'shared', body, { ...service.engine.services, ...DEFAULTS, signal });
}

it('an ended request is canceled in Postgres, and the others of its COPY are stored', async () => {
  const ended = new AbortController();
  const reason = new EngineError('query_timeout', 'An operator canceled the request');
  await inProject(service, row.placement, async (client) => {
    await client.query('BEGIN');
    await client.query('LOCK TABLE data.shared');
    const ending = expect(insert(1, ended.signal)).rejects.toBe(reason);
    const others = Promise.all([insert(2), insert(3)]);
    const waiting = async () => {
      const { rowCount } = await client.query(
        `SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
          WHERE datname = current_database() AND relation = 'data.shared'::regclass AND NOT granted`,
      );
      return rowCount;
    };
    await vi.waitUntil(async () => (await waiting()) === 1, { timeout: 20_000 });
    ended.abort(reason);
    await ending;
    await client.query('ROLLBACK');
    await others;
  });
  expect(await project.rows('SELECT n FROM shared ORDER BY n')).toEqual([{ n: 0 }, { n: 2 }, { n: 3 }]);
});
