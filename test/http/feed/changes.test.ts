/** The feed of changes: each committed change once, in the order of commits, however it was made. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startOwnService, type TestProject, type TestService } from '../../support/service.js';

const OTHER = '01a22d30-0000-7000-8000-000000000000';

interface Change {
  cursor: string;
  op: string;
  table: string;
  [member: string]: unknown;
}

describe('the feed', () => {
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    service = await startOwnService();
    project = await service.project();
    await project.table('customers', { email: 'TEXT', score: 'FLOAT', at: 'TIMESTAMP', tags: 'JSONB', ok: 'BOOLEAN' });
    const on = await project.call('PUT', '/api/cdp/feed', { body: {} });
    expect(on.text).toContain('"status":"reading"');
    project = await project.seenAnew();
  });
  afterAll(() => service.close());

  const read = async (query = '', of = project): Promise<{ changes: Change[]; cursor: string }> => {
    const response = await of.call('GET', `/api/cdp/changes${query}`);
    expect(response.text).toMatch(/^\{"success":true/);
    return response.body as unknown as { changes: Change[]; cursor: string };
  };
  const now = async (): Promise<string> => (await read()).cursor;
  /** What work does, as changes without what differs each time. */
  const changesOf = async (work: () => Promise<unknown>, count: number): Promise<Change[]> => {
    const found: Change[] = [];
    let after = await now();
    await work();

    for (const until = Date.now() + 20_000; found.length < count && Date.now() < until;) {
      const { changes, cursor } = await read(`?after=${after}&wait=5`);
      found.push(...changes);
      after = cursor;
    }
    expect(found).toHaveLength(count);
    return found;
  };
  const bare = (changes: Change[]) =>
    changes.map(({ cursor, committed_at, transaction, ...rest }) => {
      expect([cursor, committed_at, transaction].every((value) => typeof value === 'string')).toBe(true);
      return rest;
    });

  it('has the rows of a batch, with the values that SQL shows', async () => {
    const records = [
      { email: 'ada@example.com', score: 0.1, at: '2026-01-31T09:30:00.5Z', tags: { a: [1, null] }, ok: true },
      { email: null, score: -0, at: null, tags: null, ok: false },
    ];
    const changes = await changesOf(async () => {
      const response = await project.call('POST', '/api/cdp/data/customers', { body: records });
      expect(response.text).toContain('"success":true');
    }, 2);
    const rows = await project.rows('SELECT * FROM customers ORDER BY id');
    expect(bare(changes)).toEqual(
      rows.map((row) => ({ op: 'insert', table: 'customers', key: { id: row.id }, record: row })),
    );
  });

  it('has updates, deletes and TRUNCATE of SQL', async () => {
    await project.rows("INSERT INTO customers (email) VALUES ('b') RETURNING id");
    const [row] = await project.rows("SELECT id FROM customers WHERE email = 'b'");
    const id = row?.id as string;
    const changes = await changesOf(async () => {
      await project.rows(`UPDATE customers SET email = 'c' WHERE id = '${id}'`);
      await project.rows(`UPDATE customers SET id = '${OTHER}' WHERE id = '${id}'`);
      await project.rows(`DELETE FROM customers WHERE id = '${OTHER}'`);
      await project.rows('TRUNCATE customers');
    }, 4);
    const [update, key, gone, truncated] = bare(changes);
    expect(update).toMatchObject({ op: 'update', key: { id }, record: { id, email: 'c' } });
    expect(update).not.toHaveProperty('old');
    expect(key).toMatchObject({ op: 'update', key: { id: OTHER }, old: { id } });
    expect(gone).toEqual({ op: 'delete', table: 'customers', key: { id: OTHER }, record: null });
    expect(truncated).toEqual({ op: 'truncate', table: 'customers', key: null, record: null });
  });
});
