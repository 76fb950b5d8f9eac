/** `?atomic=true`: a stream is stored completely or not at all, and holds nothing of Postgres while it arrives. */
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { connect, received } from '../../support/raw.js';
import {
  expectFailure,
  isIdle,
  runningRequests,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

let tables = 0;
async function newTable(unique = false): Promise<string> {
  const table = `atomic_${++tables}`;
  await project.table(table, { n: 'INTEGER', name: 'TEXT' });
  if (unique) await project.rows(`CREATE UNIQUE INDEX ON ${table} (n)`);
  return table;
}

const NDJSON = 'application/x-ndjson';

const send = (table: string, body: string | Uint8Array, query = '', headers: Record<string, string> = {}) =>
  project.call('POST', `/api/cdp/data/${table}?atomic=true${query}`, {
    body,
    headers: { 'content-type': NDJSON, ...headers },
  });

const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, i) => `{"n":${from + i},"name":"name"}\n`).join('');

const count = async (table: string): Promise<unknown> =>
  (await project.rows(`SELECT count(*) AS count FROM ${table}`))[0]?.['count'];

const transactions = async (table: string): Promise<unknown> =>
  (await project.rows(`SELECT count(DISTINCT xmin::text) AS n FROM ${table}`))[0]?.['n'];

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Afterwards nothing is kept on disk. */
const expectNothingKept = () => expect(service.engine.services.spools.bytes).toBe(0);

describe('works', () => {
  it('stores all chunks in one transaction', async () => {
    const table = await newTable();
    const body = lines(25_000);
    const { status, body: answer } = await send(table, gzipSync(body), '', { 'content-encoding': 'gzip' });
    const message = '25000 records inserted';
    expect([status, answer]).toEqual([
      201,
      { success: true, inserted_rows: 25_000, chunks: 1, bytes: body.length, message },
    ]);
    expect([await count(table), await transactions(table)]).toEqual([25_000, 1]);
    expectNothingKept();
  });

  it('delimited text, no records at all, and the last line of progress', async () => {
    const table = await newTable();
    const csv = { 'content-type': 'text/csv' };
    expect((await send(table, 'n,name\n1,a\n2,"b\nc"', '', csv)).body).toMatchObject({ inserted_rows: 2 });
    expect((await send(table, 'n,name\n', '', csv)).body).toMatchObject({ inserted_rows: 0, chunks: 0, bytes: 7 });
    expect((await send(table, '')).body).toMatchObject({ inserted_rows: 0, chunks: 0, bytes: 0 });
    const said = await send(table, lines(3), '', { accept: NDJSON });
    expect([said.status, JSON.parse(said.text)]).toMatchObject([201, { done: { inserted_rows: 3 } }]);
    expect(await count(table)).toBe(5);
  });

  it('on_conflict, within and across chunks', async () => {
    const table = await newTable(true);
    const body = `${lines(15_000)}{"n":7,"name":"last"}\n`;
    const { body: answer } = await send(table, body, '&on_conflict=n');
    expect(answer).toMatchObject({ inserted_rows: 15_000, updated_rows: 1, ignored_rows: 0, chunks: 1 });
    const again = await send(table, '{"n":7}\n{"n":15001}\n', '&on_conflict=n&resolution=ignore');
    expect(again.body).toMatchObject({ inserted_rows: 1, updated_rows: 0, ignored_rows: 1 });
    // Twice in one chunk: only the checked path can do that.
    const twice = await send(table, '{"n":8,"name":"a"}\n{"n":8,"name":"b"}\n', '&on_conflict=n');
    expect(twice.body).toMatchObject({ inserted_rows: 0, updated_rows: 2 });
    expect(await project.rows(`SELECT n, name FROM ${table} WHERE n IN (7, 8) ORDER BY n`)).toEqual([
      { n: 7, name: 'last' },
      { n: 8, name: 'b' },
    ]);
  });

  it('records that only the checked path accepts', async () => {
    const table = await newTable();
    await project.rows(`CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.n % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$;
      CREATE TRIGGER skip BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION skip()`);
    expect((await send(table, lines(12_000))).body).toMatchObject({ inserted_rows: 6_000, chunks: 1 });
    expect(await count(table)).toBe(6_000);
  });

  it('after a change of the table that the service has not seen', async () => {
    const table = await newTable();
    expect((await send(table, lines(1))).status).toBe(201);
    await project.rows(`ALTER TABLE ${table} ALTER n TYPE text`);
    expect((await send(table, '{"n":"x"}\n')).status).toBe(201);
    expect(await project.rows(`SELECT n FROM ${table} ORDER BY n`)).toEqual([{ n: '0' }, { n: 'x' }]);
  });

  it('a repeat with the same Idempotency-Key gets the stored answer', async () => {
    const table = await newTable();
    const headers = { 'idempotency-key': randomUUID() };
    const first = await send(table, lines(12_000), '', headers);
    const second = await send(table, lines(12_000), '', headers);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    for (const [body, query] of [
      [lines(12_001), ''],
      [lines(12_000), '&on_conflict=n'],
    ] as const) {
      expectFailure(await send(table, body, query, headers), 422, 'idempotency_key_reused');
    }
    const receipt = await project.call('GET', `/api/cdp/receipts/${headers['idempotency-key']}?table=${table}`);
    expect(receipt.body).toMatchObject({ status: 'stored', operation: 'insert', rows: 12_000 });
    expect(await count(table)).toBe(12_000);
  });
});

describe('refuses', () => {
  it('everything, naming every wrong record of all chunks, what Postgres refuses too', async () => {
    const table = await newTable(true);
    await project.rows(`INSERT INTO ${table} (n) VALUES (20000)`);
    const places = { wrong: lines(10_500).length, unknown: lines(10_500).length + 10 };
    const body = `${lines(10_500)}{"n":"x"}\n{"m":1}\n${lines(11_000, 10_500)}`;
    const failure = expectFailure(await send(table, body), 400, 'invalid_value');
    expect(failure).toMatchObject({ error_count: 3 });
    expect(failure.errors).toMatchObject([
      { line: 10_501, offset: places.wrong, column: 'n', error: 'invalid_value' },
      { line: 10_502, offset: places.unknown, column: 'm', error: 'unknown_column' },
      { line: 20_003, column: 'n', error: 'unique_violation' },
    ]);
    expect(failure).not.toHaveProperty('stored_rows');
    expect(await count(table)).toBe(1);
    expectNothingKept();
  });

  it('lists the first 50 of many, and counts them all', async () => {
    const table = await newTable();
    const failure = expectFailure(await send(table, '{"n":"x"}\n'.repeat(12_000)), 400, 'invalid_value');
    expect(failure.errors).toHaveLength(50);
    expect(failure).toMatchObject({ error_count: 12_000 });
    expect(await count(table)).toBe(0);
  });

  it('what cannot be divided into records, with what is wrong before', async () => {
    const table = await newTable();
    const csv = `n,name\nx,b\n${'1,a\n'.repeat(12_000)}2,"c\n`;
    const failure = expectFailure(await send(table, csv, '', { 'content-type': 'text/csv' }), 400, 'invalid_value');
    expect(failure.errors).toMatchObject([
      { line: 2, column: 'n' },
      { line: 12_003, error: 'invalid_request' },
    ]);
    const packed = gzipSync(lines(1_000));
    const cut = await send(table, packed.subarray(0, 100), '', { 'content-encoding': 'gzip' });
    expectFailure(cut, 400, 'invalid_request');
    expect(await count(table)).toBe(0);
    expectNothingKept();
  });

  it('a deferred constraint at the commit, naming the record', async () => {
    const table = await newTable();
    await project.rows(`ALTER TABLE ${table} ADD CONSTRAINT once UNIQUE (n) DEFERRABLE INITIALLY DEFERRED`);
    const failure = expectFailure(await send(table, `${lines(11_000)}{"n":3}\n`), 409, 'unique_violation');
    expect(failure.errors).toMatchObject([{ line: 11_001 }]);
    expect(await count(table)).toBe(0);
  });

  it('parameters that contradict it, and batches', async () => {
    const table = await newTable();
    for (const query of ['&on_error=quarantine', '&offset=5', '&return=ids', '&dry_run=true'])
      expectFailure(await send(table, lines(1), query), 400, 'invalid_request');
    const batch = await project.call('POST', `/api/cdp/data/${table}?atomic=true`, { body: [{ n: 1 }] });
    expectFailure(batch, 400, 'invalid_request');
    const token = await project.tokenWith('data:append');
    const path = `/api/cdp/data/${table}?atomic=true`;
    const append = { token, body: lines(1), headers: { 'content-type': NDJSON } };
    expectFailure(await project.call('POST', path, append), 403, 'insufficient_scope');
    expect(await count(table)).toBe(0);
  });
});

describe('protects', () => {
  const head = (table: string, more: string): string =>
    `POST /api/cdp/data/${table}?atomic=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${project.token}\r\n` +
    `content-type: ${NDJSON}\r\nconnection: close\r\n${more}\r\n\r\n`;

  it('others: while the body arrives, it holds no connection, slot or lock, and a client that leaves leaves nothing', async () => {
    const table = await newTable();
    const { spools } = service.engine.services;
    const [whole, broken] = [await connect(service.url), await connect(service.url)];
    const body = lines(20_000);
    const answer = received(whole, 20_000);
    whole.write(`${head(table, `content-length: ${body.length}`)}${body.slice(0, 400_000)}`);
    broken.write(`${head(table, 'content-length: 10000000')}${body}`);
    await until(() => spools.bytes >= 400_000 + body.length);
    expect(runningRequests(service)).toBe(0);
    // Nothing locks the table.
    await project.rows(`ALTER TABLE ${table} ADD added int8 DEFAULT 5`);
    expect(await count(table)).toBe(0);
    // Its name is gone.
    expect((await readdir(tmpdir())).filter((name) => name.startsWith('spool-'))).toEqual([]);
    broken.destroy();
    whole.write(body.slice(400_000));
    expect(await answer).toMatch(/^HTTP\/1\.1 201/);
    await until(() => isIdle(service) && service.engine.liveRequests.list().length === 0);
    expect([await count(table), await transactions(table)]).toEqual([20_000, 1]);
    expectNothingKept();
  });

  it('the disk: bodies of a project are not larger than its quota', async () => {
    const before = await service.project();
    await before.table('few', { name: 'TEXT' });
    await service.engine.projects.setQuota(before.name, 32 * 1024 * 1024, BY_ITSELF);
    const small = await before.seenAnew();
    const line = `{"name":"${'x'.repeat(100_000)}"}\n`;
    const response = await small.call('POST', '/api/cdp/data/few?atomic=true', {
      body: line.repeat(400),
      headers: { 'content-type': NDJSON },
    });
    const { message } = expectFailure(response, 403, 'quota_exceeded');
    expect(message).toContain('its quota of 32MB');
    expect(await small.rows('SELECT count(*) AS n FROM few')).toEqual([{ n: 0 }]);
    expectNothingKept();
  });
});
