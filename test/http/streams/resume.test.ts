/** Streams with an Idempotency-Key: whatever breaks them off, the repeat stores the rest, and nothing twice. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../support/raw.js';
import {
  expectFailure,
  inProject,
  isIdle,
  startTestService,
  type TestProject,
  type TestResponse,
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
async function newTable(owner = project): Promise<string> {
  const table = `resumed_${++tables}`;
  await owner.table(table, { n: 'INTEGER', name: 'TEXT' });
  return table;
}

const RECORDS = 45_000;
const csv = `n,name\n${Array.from({ length: RECORDS }, (_, n) => `${n},"name\n${n} ${'x'.repeat(80)}"\n`).join('')}`;

interface Part {
  query?: string;
  key?: string;
  type?: string;
  token?: string;
}

const send = (table: string, body: string, { query = '', key = `key-${table}`, type = 'text/csv', token }: Part = {}) =>
  project.call('POST', `/api/cdp/data/${table}${query}`, {
    body,
    headers: { 'content-type': type, 'idempotency-key': key },
    ...(token === undefined ? {} : { token }),
  });

const receiptOf = async (table: string, token = project.token): Promise<Record<string, unknown>> =>
  (await project.call('GET', `/api/cdp/receipts/key-${table}?table=${table}`, { token })).body;

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Sends the beginning of a stream, and disconnects. */
async function breakOff(table: string, body: string, offset: number): Promise<void> {
  const socket = await connect(service.url);
  socket.write(
    `POST /api/cdp/data/${table}?offset=${offset} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${project.token}\r\n` +
      `content-type: text/csv\r\nidempotency-key: key-${table}\r\ncontent-length: ${csv.length - offset}\r\n\r\n`,
  );
  await new Promise((resolve) => socket.write(body, resolve));
  const { liveRequests } = service.engine;
  await until(() => liveRequests.list().length > 0);
  socket.destroy();
  await until(() => liveRequests.list().length === 0 && isIdle(service));
}

const expectAll = async (table: string): Promise<void> => {
  const [row] = await project.rows(
    `SELECT count(*) AS count, count(DISTINCT n) AS different, sum(n) AS sum FROM ${table}`,
  );
  expect(row).toEqual({ count: RECORDS, different: RECORDS, sum: (RECORDS * (RECORDS - 1)) / 2 });
};

describe('a stream that is broken off', () => {
  it('is resumed exactly from the byte that its receipt names', async () => {
    const table = await newTable();
    let bytes = 0;
    for (let cut = 1; cut <= 10; cut++) {
      await breakOff(table, csv.slice(bytes, Math.floor((csv.length * cut) / 11)), bytes);
      const receipt = await receiptOf(table);
      if (receipt.status === 'not_stored') continue;
      expect(receipt).toMatchObject({ status: 'stored', operation: 'stream', complete: false });
      bytes = receipt.bytes as number;
      const [row] = await project.rows(`SELECT count(*) AS count FROM ${table}`);
      expect(row?.count).toBe(receipt.rows);
    }
    expect(bytes).toBeGreaterThan(0);
    const { status, body } = await send(table, csv.slice(bytes), { query: `?offset=${bytes}` });
    expect([status, body.inserted_rows, body.bytes]).toEqual([201, RECORDS, csv.length]);
    expect(await receiptOf(table)).toMatchObject({ rows: RECORDS, bytes: csv.length, complete: true });
    await expectAll(table);
  });

  it('is resumed exactly by sending everything', async () => {
    const table = await newTable();
    for (let cut = 6; cut <= 10; cut++) await breakOff(table, csv.slice(0, Math.floor((csv.length * cut) / 11)), 0);
    expect(await receiptOf(table)).toMatchObject({ complete: false });
    expect((await send(table, csv)).body).toMatchObject({ inserted_rows: RECORDS, bytes: csv.length });
    await expectAll(table);
  });

  it('also ends after a wrong record, and goes on when that is corrected', async () => {
    const table = await newTable();
    const at = csv.indexOf('30000,');
    const wrong = `${csv.slice(0, at)}x${csv.slice(at + 1)}`;
    const failure = expectFailure(await send(table, wrong), 400, 'invalid_value');
    expect(await receiptOf(table)).toMatchObject({ bytes: failure.stored_bytes, rows: failure.stored_rows });
    expect((await send(table, csv)).status).toBe(201);
    await expectAll(table);
  });
});

describe('a repeat', () => {
  it('of a complete stream gets the same answer, and stores nothing', async () => {
    const table = await newTable();
    const first = await send(table, csv);
    const second = await send(table, csv);
    expect(second.body).toEqual(first.body);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    await expectAll(table);
  });

  it('with other content, another query or format, or from elsewhere is refused', async () => {
    const table = await newTable();
    const first = await send(table, csv);
    const at = csv.indexOf('40000,');
    const other = `${csv.slice(0, at)}9${csv.slice(at + 1)}`;
    const refusals: TestResponse[] = [
      await send(table, other),
      await send(table, csv.slice(0, at)),
      await send(table, `${csv}1,more\n`),
      await send(table, csv, { query: '?on_error=quarantine' }),
      await send(table, csv, { query: '?null=NA' }),
      await send(table, csv, { type: 'text/tab-separated-values' }),
      await send(table, csv.slice(100), { query: '?offset=100' }),
      await send(table, '', { query: `?offset=${csv.length + 1}` }),
    ];
    const messages = refusals.map((refusal) => expectFailure(refusal, 422, 'idempotency_key_reused').message);
    expect(messages[0]).toMatch(/^From byte \d+ on, this is not the stream/);
    expect(first.status).toBe(201);
    await expectAll(table);
  });

  it('while another request sends the stream is refused, and both store each record once', async () => {
    const table = await newTable();
    const answers = await Promise.all([1, 2, 3].map(() => send(table, csv)));
    for (const answer of answers) if (answer.status !== 201) expectFailure(answer, 409, 'request_in_flight');
    expect((await send(table, csv)).status).toBe(201);
    await expectAll(table);
  });

  it('of a settled key is refused', async () => {
    const table = await newTable();
    await project.call('GET', `/api/cdp/receipts/key-${table}?table=${table}&settle=true`);
    expectFailure(await send(table, csv), 409, 'key_settled');
  });

  it('finds the chunks of a role that the project has made', async () => {
    const owner = await service.project();
    const table = await newTable(owner);
    const made = await owner.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
    await owner.rows(
      `GRANT SELECT, INSERT ON ${table} TO ${(made.body['role'] as { postgres_name: string }).postgres_name}`,
    );
    const token = await owner.tokenAs('intern', 'data:write');
    const at = csv.indexOf('30000,');
    const wrong = `${csv.slice(0, at)}x${csv.slice(at + 1)}`;
    expectFailure(await send(table, wrong, { token }), 400, 'invalid_value');
    expect(await receiptOf(table, token)).toMatchObject({ operation: 'stream', complete: false });
    expect((await send(table, csv, { token })).status).toBe(201);
    expect(await owner.rows(`SELECT count(*) AS count FROM ${table}`)).toEqual([{ count: RECORDS }]);
    const { placement } = await service.engine.projects.get(owner.name);
    const rows = await inProject(service, placement, (client) => client.query('SELECT path FROM _cdp.stream_chunks'));
    expect(new Set(rows.rows.map(({ path }: { path: string }) => path))).toEqual(
      new Set([`ROLE intern STREAM ${table}`]),
    );
  });
});

it('an offset needs a key', async () => {
  const table = await newTable();
  const response = await project.call('POST', `/api/cdp/data/${table}?offset=5`, {
    body: csv,
    headers: { 'content-type': 'text/csv' },
  });
  expectFailure(response, 400, 'invalid_request');
});
