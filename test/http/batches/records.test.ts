/** Batch insert over HTTP: requests, responses, and what the service itself refuses (contract C8). */
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { call, expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

const MIB = 1024 * 1024;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

let service: TestService;
let project: TestProject;
/** Beside it in every test; whatever happens, its table stays empty. */
let neighbour: TestProject;
beforeAll(async () => {
  service = await startTestService();
  [project, neighbour] = await Promise.all([service.project(), service.project()]);
  for (const each of [project, neighbour]) await each.table('people', { name: 'TEXT', age: 'INTEGER', note: 'JSONB' });
});
afterEach(async () => {
  expect(await neighbour.rows('SELECT count(*) AS n FROM people')).toEqual([{ n: 0 }]);
  await project.rows('DELETE FROM people');
});
afterAll(() => service.close());

const PATH = '/api/cdp/data/people';
const insert = (body: unknown, query = '', headers: Record<string, string> = {}) =>
  project.call('POST', PATH + query, { body, headers });
const people = (count: number) => Array.from({ length: count }, (_, n) => ({ name: `person ${n}`, age: n }));
const stored = async () => Number((await project.rows('SELECT count(*) AS n FROM people'))[0]?.n);

/** A batch of one record whose JSON is exactly so many bytes long. */
const batchOf = (bytes: number) => {
  const frame = '[{"name":""}]';
  return frame.replace('""', `"${'x'.repeat(bytes - frame.length)}"`);
};

describe('works', () => {
  it('with 201 and exactly three fields', async () => {
    const response = await insert(people(2));
    expect(response.status).toBe(201);
    expect(response.body).toEqual({ success: true, inserted_rows: 2, message: '2 records inserted' });
    expect(response.headers.get('content-type')).toContain('application/json');
    expect(response.headers.get('cache-control')).toBe('no-store');
  });

  it.each([1, 250])('for %d records, each with a UUID v7 of its own', async (count) => {
    const response = await insert(people(count));
    expect(response.body).toMatchObject({ success: true, inserted_rows: count });
    const rows = await project.rows('SELECT id, name, age FROM people ORDER BY age');
    expect(rows.map(({ name, age }) => ({ name, age }))).toEqual(people(count));
    expect(new Set(rows.map(({ id }) => id)).size).toBe(count);
    for (const { id } of rows) expect(id).toMatch(UUID_V7);
  });

  it('for a single record, which is stored as it is among others', async () => {
    await project.table('each', { a: 'TEXT', b: 'INTEGER', c: 'FLOAT', d: 'BOOLEAN', e: 'TIMESTAMP', f: 'JSONB' });
    const records = [
      { a: 'x\ty\n"', b: -9223372036854775000, c: 1e300, d: true, e: '1969-07-20T20:17:40.5Z', f: { a: [1, null] } },
      { a: null, b: null, c: null, d: null, e: null, f: null },
      { f: 'é', e: '2026-01-31', c: -0.5 },
      { a: '', d: false },
    ];
    const send = (body: unknown, query = '', headers = {}) =>
      project.call('POST', `/api/cdp/data/each${query}`, { body, headers });
    // The first of all tells the service what the table is like.
    expect((await send(records)).status).toBe(201);
    for (const [i, record] of records.entries()) {
      expect((await send([record])).status).toBe(201);
      const [id] = (await send([record], '?return=ids')).body.ids as string[];
      expect(await project.rows(`SELECT id FROM each WHERE id = '${String(id)}'`)).toEqual([{ id }]);
      const key = { 'Idempotency-Key': `alone ${i}` };
      expect((await send([record], '', key)).status).toBe(201);
      expect((await send([record], '', key)).headers.get('idempotency-replayed')).toBe('true');
    }
    const found = await project.rows('SELECT a, b, c, d, e, f, count(*) AS n FROM each GROUP BY a, b, c, d, e, f');
    expect(found.map(({ n }) => n)).toEqual([4, 4, 4, 4]);
  });

  it('for {}, which is a row with only an id', async () => {
    expect((await insert([{}, {}])).body).toMatchObject({ inserted_rows: 2 });
    const rows = await project.rows('SELECT * FROM people');
    expect(rows).toHaveLength(2);
    for (const row of rows) expect(row).toEqual({ id: row.id, name: null, age: null, note: null });
  });

  it('for records that differ in their keys and the order of their keys', async () => {
    await insert([{ name: 'a' }, { age: 2, name: 'b' }, {}, { note: { x: 1 }, age: 3 }, { name: null, age: null }]);
    expect(await project.rows('SELECT name, age, note FROM people ORDER BY name, age')).toEqual([
      { name: 'a', age: null, note: null },
      { name: 'b', age: 2, note: null },
      { name: null, age: 3, note: { x: 1 } },
      { name: null, age: null, note: null },
      { name: null, age: null, note: null },
    ]);
  });

  it('with ?return=ids, which returns the ids in record order, whatever their keys', async () => {
    const own = '0192aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee';
    const records = [
      { name: '0' },
      { id: own, age: 1 },
      {},
      { name: '3', id: '0192AAAA-BBBB-7CCC-8DDD-000000000003' },
      { age: 4 },
    ];
    const response = await insert(records, '?return=ids');
    expect(response.status).toBe(201);
    const ids = response.body.ids as string[];
    expect(ids).toHaveLength(5);
    expect(ids[1]).toBe(own);
    expect(ids[3]).toBe('0192aaaa-bbbb-7ccc-8ddd-000000000003');
    const found = await project.rows('SELECT id, name, age FROM people');
    const byId = new Map(found.map(({ id, name, age }) => [id, { name, age }]));
    expect(ids.map((id) => byId.get(id))).toEqual([
      { name: '0', age: null },
      { name: null, age: 1 },
      { name: null, age: null },
      { name: '3', age: null },
      { name: null, age: 4 },
    ]);
  });

  it('with ?return=ids for 250 records that alternate in their keys', async () => {
    const records = Array.from({ length: 250 }, (_, age) => ({
      age,
      ...(age % 3 === 0 ? { id: `00000000-0000-7000-8000-${String(age).padStart(12, '0')}` } : {}),
    }));
    const { body } = await insert(records, '?return=ids');
    const rows = await project.rows('SELECT id FROM people ORDER BY age');
    expect(body.ids).toEqual(rows.map(({ id }) => id));
  });

  it('for a body in gzip', async () => {
    const body = gzipSync(JSON.stringify(people(250)));
    expect((await insert(body, '', { 'content-encoding': 'gzip' })).status).toBe(201);
    expect((await insert(gzipSync('[{}]'), '', { 'content-encoding': 'GZIP' })).status).toBe(201);
    expect(await stored()).toBe(251);
  });

  it('for a body of exactly 10 MiB, compressed or not', async () => {
    const body = batchOf(10 * MIB);
    expect((await insert(body)).status).toBe(201);
    expect((await insert(gzipSync(body), '', { 'content-encoding': 'gzip' })).status).toBe(201);
    expect(await project.rows('SELECT length(name) AS n FROM people')).toEqual(
      Array.from({ length: 2 }, () => ({ n: 10 * MIB - 13 })),
    );
  });

  it('for a body with a charset in its type and white space around it', async () => {
    const response = await insert(' \n[ { "name" : "x" } ]\r\n', '', {
      'content-type': 'application/json; charset=utf-8',
    });
    expect(response.status).toBe(201);
  });
});

describe('refuses', () => {
  const nothingStored = async (response: Awaited<ReturnType<typeof insert>>, status: number, code: string) => {
    const body = expectFailure(response, status, code);
    expect(await stored()).toBe(0);
    return body;
  };

  it('251 records', async () => {
    await nothingStored(await insert(people(251)), 400, 'too_many_records');
  });

  it('an empty array', async () => {
    await nothingStored(await insert([]), 400, 'empty_batch');
  });

  it.each(['{}', '{"name":"x"}', 'null', '1', '"x"', 'true'])('a body that is not an array: %s', async (body) => {
    await nothingStored(await insert(body), 400, 'invalid_request');
  });

  it.each([
    '',
    ' ',
    '[',
    '[{}',
    '[{}],',
    '[{},]',
    "[{'a':1}]",
    '[{"age":01}]',
    '[NaN]',
    '\ufeff[{}]',
    '[{"name":"\t"}]',
  ])('a body that is not JSON: %j', async (body) => {
    await nothingStored(await insert(body), 400, 'invalid_json');
  });

  it('a body that is not UTF-8', async () => {
    const body = Buffer.concat([Buffer.from('[{"name":"'), Buffer.from([0xff, 0xc0, 0x80]), Buffer.from('"}]')]);
    await nothingStored(await insert(body), 400, 'invalid_json');
  });

  it('a body nested too deeply', async () => {
    const nested = (levels: number) => `[{"note":${'['.repeat(levels)}${']'.repeat(levels)}}]`;
    await nothingStored(await insert(nested(99)), 400, 'invalid_json');
    await nothingStored(await insert(nested(1_000_000)), 400, 'invalid_json');
    expect((await insert(nested(98))).status).toBe(201);
  });

  it('records that are not objects, each named', async () => {
    const body = await nothingStored(await insert([{}, null, {}, [], 'x', 1, true]), 400, 'invalid_request');
    expect(body.errors?.map(({ record }) => record)).toEqual([1, 3, 4, 5, 6]);
    expect(body.error_count).toBe(5);
    expect(body.message).toContain('Record 1');
  });

  it('a duplicate key in a record', async () => {
    const body = await nothingStored(await insert('[{},{"name":"a","name":"b"}]'), 400, 'invalid_json');
    expect(body.errors).toMatchObject([{ record: 1, column: 'name' }]);
  });

  it('an unknown column, and suggests a similar name', async () => {
    const body = await nothingStored(await insert([{ name: 'a' }, { nmae: 'b' }]), 400, 'unknown_column');
    expect(body.errors).toMatchObject([
      { record: 1, column: 'nmae', error: 'unknown_column', hint: 'Did you mean "name"?' },
    ]);
    expect(body.message).toContain('Record 1');
    expect(body.hint).toBe('Did you mean "name"?');
  });

  it.each(['NAME', 'Id', '', ' name', '__proto__', 'constructor', 'toString', 'xmin', 'ctid', 'oid', 'tableoid', '"'])(
    'the unknown column %j',
    async (column) => {
      const body = await nothingStored(await insert(`[{${JSON.stringify(column)}:null}]`), 400, 'unknown_column');
      expect(body.errors).toMatchObject([{ record: 0, column }]);
    },
  );

  it('more than 50 bad cells: lists 50 and counts all', async () => {
    const records = people(250).map(({ name }) => ({ name, age: 'young', what: 1 }));
    const body = await nothingStored(await insert(records), 400, 'invalid_value');
    expect(body.errors).toHaveLength(50);
    expect(body.error_count).toBe(500);
    expect(body.errors?.slice(0, 3).map(({ record, column }) => [record, column])).toEqual([
      [0, 'age'],
      [0, 'what'],
      [1, 'age'],
    ]);
  });

  it.each(['?ids=1', '?return=', '?return=ids&return=ids', '?return=ids&x', '?__proto__=1', '?Return=ids'])(
    'the query %s',
    async (query) => {
      await nothingStored(await insert([{}], query), 400, 'invalid_request');
    },
  );

  it('another value of "return", and lists the allowed ones', async () => {
    expect(expectFailure(await insert([{}], '?return=id'), 400, 'invalid_request').message).toBe(
      'query.return must be "ids"',
    );
  });

  it('a table that does not exist, and suggests a similar name', async () => {
    const response = await project.call('POST', '/api/cdp/data/poeple', { body: [{}] });
    expect(expectFailure(response, 404, 'table_not_found').hint).toBe('Did you mean "people"?');
  });

  it.each([
    ['a_view', 'CREATE MATERIALIZED VIEW a_view AS SELECT 1 AS a', '"a_view" is a materialized view, not a table'],
    ['an_index', 'CREATE INDEX an_index ON people (age)', 'There is no table "an_index"'],
  ])('%s, which is not a table, and says so as the schema calls do', async (name, create, message) => {
    await project.rows(create);
    const response = await project.call('POST', `/api/cdp/data/${name}`, { body: [{}] });
    expect(expectFailure(response, 404, 'table_not_found').message).toBe(message);
  });

  it.each(['People', 'pg_class', 'idempotency_keys', 'a%22b', '%00', 'data.people', 'a'.repeat(64), 'people%20'])(
    'the table %s',
    async (table) => {
      expectFailure(await project.call('POST', `/api/cdp/data/${table}`, { body: [{}] }), 404, 'table_not_found');
    },
  );
});

describe('protects', () => {
  it('the batch: a bad cell in the last of 250 records stores none of them', async () => {
    expectFailure(await insert([...people(249), { age: 'x' }]), 400, 'invalid_value');
    expect(await stored()).toBe(0);
  });

  it('the table from a token without data:write, and stores nothing', async () => {
    const token = await project.tokenWith('schema:read', 'schema:write', 'sql:read', 'sql:write');
    const body = expectFailure(await project.call('POST', PATH, { body: people(1), token }), 403, 'insufficient_scope');
    expect(body.message).toContain('data:write');
    expectFailure(await project.call('POST', PATH, { body: people(1), token: null }), 401, 'unauthorized');
    expect(await stored()).toBe(0);
  });

  it('no more than necessary: a token with data:write alone can insert', async () => {
    const token = await project.tokenWith('data:write');
    expect((await project.call('POST', PATH, { body: people(1), token })).status).toBe(201);
  });

  it('names of tables and columns: 401 and 403 come before anything about the table or the body', async () => {
    const token = await project.tokenWith('sql:read');
    for (const path of [PATH, '/api/cdp/data/nosuch', '/api/cdp/data/a%20b']) {
      expectFailure(await call(service.url, 'POST', path, { body: 'no json' }), 401, 'unauthorized');
      expectFailure(await call(service.url, 'POST', path, { body: 'no json', token }), 403, 'insufficient_scope');
    }
  });

  it('the schema: a name or value that looks like SQL is only a name or value', async () => {
    const evil = `x'); DROP TABLE people; --`;
    expect((await insert([{ name: evil, note: { [evil]: evil } }])).status).toBe(201);
    expect(await project.rows('SELECT name, note FROM people')).toEqual([{ name: evil, note: { [evil]: evil } }]);
    expectFailure(await insert([{ [`name") VALUES ('x'); --`]: 1 }]), 400, 'unknown_column');
    expectFailure(
      await project.call('POST', `/api/cdp/data/${encodeURIComponent(evil)}`, { body: [{}] }),
      404,
      'table_not_found',
    );
    expect(await stored()).toBe(1);
  });

  it('values: a message shows only the beginning of one', async () => {
    const body = expectFailure(await insert([{ age: 'x'.repeat(1_000_000) }]), 400, 'invalid_value');
    expect(JSON.stringify(body).length).toBeLessThan(1_000);
  });
});
