/** The quarantine as a work list: records in groups, and what a replay can correct in them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { QuarantineGroup } from '../../../src/contract/wire/quarantine.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('seen', { who: 'TEXT', at: 'TIMESTAMP', n: 'FLOAT' });
  await project.table('other', { n: 'INTEGER' });
  await project.rows(
    'ALTER TABLE seen ADD CONSTRAINT early CHECK (n < 100 OR who IS NULL); CREATE TABLE secrets (s text)',
  );
});
beforeEach(() => project.rows('DELETE FROM seen; DELETE FROM _cdp.quarantine'));
afterAll(() => service.close());

const keep = (body: unknown, table = 'seen') =>
  project.call('POST', `/api/cdp/data/${table}?on_error=quarantine`, { body });
const groups = async (query = '', token = project.token) =>
  (await project.call('GET', `/api/cdp/quarantine?group=true${query}`, { token })).body.groups as QuarantineGroup[];
const counted = async (query = '') =>
  (await groups(query)).map(({ table, error, column, columns, count }) => [table, error, columns ?? column, count]);
const replay = (body: object, token = project.token) =>
  project.call('POST', '/api/cdp/quarantine/replay', { body: { table: 'seen', ...body }, token });
const seen = () => project.rows('SELECT who, at, n FROM seen ORDER BY who');
const kept = async () =>
  (await project.rows('SELECT id, record FROM _cdp.quarantine ORDER BY id')) as { id: string; record: string }[];
const TIME = '2026-01-31T09:30:00.000Z';

describe('groups', () => {
  it('by table, error and column, the largest first, with the same filters', async () => {
    await keep([{ at: 'x' }, { at: 'y', nope: 1 }, { at: 'z' }, { who: 'a', n: 200 }, { nope: 1, n: 'q' }]);
    await keep([{ n: 'x' }, { n: 1 }], 'other');
    expect(await counted()).toEqual([
      ['seen', 'invalid_value', 'at', 3],
      ['seen', 'unknown_column', 'nope', 2],
      ['other', 'invalid_value', 'n', 1],
      ['seen', 'constraint_violation', ['n', 'who'], 1],
      ['seen', 'invalid_value', 'n', 1],
    ]);
    expect(await counted('&table=other')).toEqual([['other', 'invalid_value', 'n', 1]]);
    const [first] = await groups('&table=seen');
    expect(first?.message).toBe('Column "at": "x" is not a timestamp');
    expect(Date.parse(first?.newest ?? '')).toBeGreaterThanOrEqual(Date.parse(first?.oldest ?? 'x'));
    const { body } = await project.call('GET', '/api/cdp/quarantine?group=true');
    expect([body.records, body.next]).toEqual([[], null]);
  });

  it('only of tables that the token may read', async () => {
    await keep([{ at: 'x' }]);
    await keep([{ n: 'x' }], 'other');
    const reader = await project.tokenWith('sql:read');
    const { reader: role } = (await service.engine.projects.get(project.name)).placement;
    await project.rows(`REVOKE SELECT ON other FROM ${role}`);
    try {
      expect((await groups('', reader)).map(({ table }) => table)).toEqual(['seen']);
    } finally {
      await project.rows(`GRANT SELECT ON other TO ${role}`);
    }
  });

  it('refuses another value', async () => {
    expectFailure(await project.call('GET', '/api/cdp/quarantine?group=yes'), 400, 'invalid_request');
  });
});

describe('a replay', () => {
  it('leaves out keys', async () => {
    await keep([{ who: 'a', nope: 1, other: 2 }]);
    expect((await replay({ drop: ['nope', 'other', 'none'] })).body.inserted_rows).toBe(1);
    expect(await seen()).toEqual([{ who: 'a', at: null, n: null }]);
    expect(await kept()).toEqual([]);
  });

  it('takes a value from another key, with all its digits, where a record has it', async () => {
    await keep(`[{"who":"a","at":"","sent_at":"${TIME}"},{"who":"b","at":"never"},{"who":"c","num":1.10,"n":"x"}]`);
    const first = await replay({ set_from: { at: 'sent_at', n: 'num' }, drop: ['sent_at', 'num'] });
    expect(first.body).toMatchObject({ inserted_rows: 2, refused_rows: 1 });
    expect(await seen()).toMatchObject([
      { who: 'a', n: null },
      { who: 'c', n: 1.1 },
    ]);
    expect((await kept()).map(({ record }) => record)).toEqual(['{"who":"b","at":"never"}']);
  });

  it('computes values by SQL from the record as it is kept', async () => {
    await keep([
      { who: 'A', n: '1,5' },
      { who: 'B', n: 'none', at: '31.1.2026' },
    ]);
    const set_sql = {
      who: "lower(record->>'who') -- as elsewhere",
      n: "nullif(replace(record->>'n', ',', '.'), 'none')",
      at: "to_date(record->>'at', 'DD.MM.YYYY')",
    };
    const tried = await project.call('POST', '/api/cdp/quarantine/replay?dry_run=true', {
      body: { table: 'seen', set_sql },
    });
    expect(tried.body).toMatchObject({ inserted_rows: 2, refused_rows: 0 });
    expect((await kept()).length).toBe(2);
    expect((await replay({ set_sql })).body.inserted_rows).toBe(2);
    expect(await project.rows("SELECT who, n, to_char(at, 'YYYY-MM-DD') AS at FROM seen ORDER BY who")).toEqual([
      { who: 'a', n: 1.5, at: null },
      { who: 'b', n: null, at: '2026-01-31' },
    ]);
  });

  it('stores another record in place of one', async () => {
    await keep([{ who: 'a', n: 'x' }, 'no record']);
    const [first, second] = await kept();
    const other = await replay({ id: first?.id, record: { who: 'a', n: 'still' } });
    expect(other.body).toMatchObject({ refused_rows: 1, errors: [{ id: first?.id, errors: [{ column: 'n' }] }] });
    expect((await kept())[0]?.record).toBe('{"who":"a","n":"x"}');
    for (const { id, record } of [
      { id: first?.id, record: { who: 'a', n: 1 } },
      { id: second?.id, record: { who: 'b' } },
    ])
      expect((await replay({ id, record })).body.inserted_rows).toBe(1);
    expect(await seen()).toMatchObject([{ who: 'a', n: 1 }, { who: 'b' }]);
    expect(await kept()).toEqual([]);
  });

  it('combines them', async () => {
    await keep([{ Who: 'a', when: TIME, n: 'x', junk: 1 }]);
    const body = {
      rename: { Who: 'who' },
      set_from: { at: 'when' },
      drop: ['when', 'junk'],
      set_sql: { n: "length(record->>'n')" },
    };
    expect((await replay(body)).body.inserted_rows).toBe(1);
    expect(await seen()).toMatchObject([{ who: 'a', n: 1 }]);
  });
});

describe('refuses', () => {
  it.each([
    [{ set_from: { nope: 'x' } }, 'unknown_column', 'has no column "nope"'],
    [{ set_sql: { nope: '1' } }, 'unknown_column', 'has no column "nope"'],
    [{ set: { n: 1 }, set_sql: { n: '1' } }, 'invalid_request', 'Column "n" would take two values'],
    [{ set_from: { n: 'a' }, set_sql: { n: '2' } }, 'invalid_request', 'Column "n" would take two values'],
    [{ record: {} }, 'invalid_request', '`record` needs `id`'],
    [{ set_sql: { n: 'nope' } }, 'invalid_request', 'set_sql: column "nope" does not exist'],
    [{ set_sql: { n: '1 +' } }, 'invalid_request', 'set_sql: syntax error'],
    [{ set_sql: { n: '1; DELETE FROM seen' } }, 'invalid_request', 'set_sql: syntax error'],
    [{ set_sql: { n: '1 / 0' } }, 'invalid_request', 'set_sql: division by zero'],
    [{ set_sql: { who: "repeat('x', 9000000)" } }, 'invalid_request', 'have more than'],
    [{ set_sql: { n: '' } }, 'invalid_request', 'set_sql'],
    [{ drop: 'n' }, 'invalid_request', 'drop'],
  ])('%j, and changes nothing', async (body, code, text) => {
    await keep([{ who: 'a', n: 'x' }]);
    const before = await kept();
    expect(expectFailure(await replay(body), 400, code).message).toContain(text);
    expect(await kept()).toEqual(before);
    expect(await seen()).toEqual([]);
  });
});

describe('protects', () => {
  it('data from a token that may not run SQL', async () => {
    await keep([{ who: 'a', n: 'x' }]);
    const token = await project.tokenWith('data:write', 'sql:read');
    const body = { set_sql: { who: '(SELECT max(s) FROM secrets)' }, set: { n: 1 } };
    expectFailure(await replay(body, token), 403, 'insufficient_scope');
    expect(await seen()).toEqual([]);
    expect((await replay({ set: { n: 1 } }, token)).body.inserted_rows).toBe(1);
  });

  it('later requests from what an expression has set', async () => {
    await keep([{ who: 'a', n: 'x' }]);
    const set_sql = { n: "length(set_config('search_path', 'pg_temp', false))" };
    expect((await replay({ set_sql })).body.inserted_rows).toBe(1);
    await keep([{ who: 'b', n: 'x' }]);
    expect((await replay({ set: { n: 2 } })).body.inserted_rows).toBe(1);
    expect(await seen()).toHaveLength(2);
  });
});
