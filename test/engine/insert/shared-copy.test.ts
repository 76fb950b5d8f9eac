/** Batches that share a COPY in a real Postgres: what ends one of them does not end the others. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { EngineError } from '../../../src/contract/errors.js';
import { insertRecords } from '../../../src/engine/insert/insert.js';
import { NEVER } from '../../../src/engine/limits/deadline.js';
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

const DEFAULTS = { returnIds: false, idempotency: null, upsert: null, quarantine: false };

/** Batches inserted in one turn of the event loop share a COPY. */
async function insert(n: number, signal = NEVER): Promise<void> {
  const admitted = service.engine.admit(row, 'typed');
  await insertRecords(admitted, 'shared', Buffer.from(JSON.stringify([{ n }])), { ...DEFAULTS, signal });
}

it('an ended request is canceled in Postgres, and the others of its COPY are stored', async () => {
  const ended = new AbortController();
  const reason = new EngineError('query_timeout', 'An operator canceled the request');
  const stored = await inProject(service, row.placement, async (client) => {
    await client.query('BEGIN');
    await client.query('LOCK TABLE data.shared');
    const inserts = [insert(1, ended.signal), insert(2), insert(3)];
    const waiting = async () => {
      const { rows } = await client.query<{ query: string }>(
        `SELECT query FROM pg_stat_activity WHERE query ^@ 'COPY' AND wait_event_type = 'Lock'`,
      );
      return rows;
    };
    await vi.waitUntil(async () => (await waiting()).length === 1, { timeout: 20_000 });
    ended.abort(reason);
    await expect(inserts[0]).rejects.toBe(reason);
    await client.query('ROLLBACK');
    return Promise.all(inserts.slice(1));
  });
  expect(stored).toHaveLength(2);
  expect(await project.rows('SELECT n FROM shared ORDER BY n')).toEqual([{ n: 0 }, { n: 2 }, { n: 3 }]);
});
