/** Streams that go wrong, on purpose or not: what was stored stays, the answer is clear, and the connection goes on. */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, received } from '../../support/raw.js';
import {
  expectFailure,
  inProject,
  isIdle,
  runningRequests,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService({ 'request-timeout-ms': '1000' });
  project = await service.project();
});
afterAll(() => service.close());

let tables = 0;
async function newTable(columns: Record<string, string> = { n: 'INTEGER', name: 'TEXT' }): Promise<string> {
  const table = `edge_${++tables}`;
  await project.table(table, columns);
  return table;
}

const NDJSON = 'application/x-ndjson';

const send = (table: string, body: string | Uint8Array, query = '', headers: Record<string, string> = {}) =>
  project.call('POST', `/api/cdp/data/${table}${query}`, { body, headers: { 'content-type': NDJSON, ...headers } });

const sendCsv = (table: string, body: string | Uint8Array, query = '') =>
  send(table, body, query, { 'content-type': 'text/csv' });

const countIn = async (table: string) => (await project.rows(`SELECT count(*) AS count FROM ${table}`))[0]?.['count'];

const lines = (count: number): string =>
  Array.from({ length: count }, (_, n) => `{"n":${n},"name":"name ${n}"}\n`).join('');

const head = (table: string, more: string): string =>
  `POST /api/cdp/data/${table} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${project.token}\r\n` +
  `content-type: ${NDJSON}\r\n${more}\r\n\r\n`;

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe('records', () => {
  it('with on_conflict update rows within and across chunks', async () => {
    const table = await newTable();
    await project.rows(`CREATE UNIQUE INDEX ON ${table} (n)`);
    const body = `${lines(15_000)}{"n":7,"name":"seven"}\n{"n":7,"name":"last"}\n`;
    const { body: answer } = await send(table, body, '?on_conflict=n');
    expect(answer).toMatchObject({ inserted_rows: 15_000, updated_rows: 2, ignored_rows: 0, chunks: 2 });
    expect(await project.rows(`SELECT name FROM ${table} WHERE n = 7`)).toEqual([{ name: 'last' }]);
    const again = await send(table, lines(10), '?on_conflict=n&resolution=ignore');
    expect(again.body).toMatchObject({ inserted_rows: 0, updated_rows: 0, ignored_rows: 10 });
  });

  it('that violate a constraint are named by their line', async () => {
    const table = await newTable();
    await project.rows(`CREATE UNIQUE INDEX ON ${table} (n)`);
    const body = `${lines(10_500)}{"n":3}\n`;
    const failure = expectFailure(await send(table, body), 409, 'unique_violation');
    const place = { line: 10_501, offset: body.length - 8, column: 'n' };
    expect(failure).toMatchObject({ stored_rows: 10_000, errors: [place] });
    expect(await countIn(table)).toBe(10_000);
  });

  it('that are wrong go to the quarantine, and the others are stored', async () => {
    const table = await newTable({ n: 'INTEGER', more: 'JSONB' });
    const body = 'n,more\n1,{}\nx,1\n2,3,4\n3,{\n4,\n';
    const { status, body: answer } = await sendCsv(table, body, '?on_error=quarantine');
    expect(status).toBe(201);
    expect(answer).toMatchObject({ inserted_rows: 2, quarantined_rows: 3 });
    expect(answer['errors']).toMatchObject([{ line: 3, column: 'n' }, { line: 4 }, { line: 5, column: 'more' }]);
    const ndjson = await send(table, 'no JSON\n{"n":5}\n"\\u0000"\n', '?on_error=quarantine');
    expect(ndjson.body).toMatchObject({ inserted_rows: 1, quarantined_rows: 2 });
    const kept = await project.call('GET', `/api/cdp/quarantine?table=${table}`);
    expect((kept.body['records'] as { record: string }[]).map(({ record }) => record)).toEqual([
      '{"n":"x","more":1}',
      '{"n":2,"more":3,"(fields as read)":["2","3","4"]}',
      '{"n":3,"more":"{"}',
      '"no JSON"',
      '"\\u0000"',
    ]);
  });
});

const columns = (count: number): string => `${Array.from({ length: count }, (_, i) => `c${i}`).join()}\n1\n`;

describe('hostile input', () => {
  const wrong: readonly [what: string, body: string | Uint8Array, message: RegExp, isCsv: boolean][] = [
    ['NUL in a line', '{"n":1}\n{"name":"a\u0000"}\n', /^Line 2: not valid JSON/, false],
    ['an escaped NUL', '{"n":1}\n{"name":"a\\u0000"}\n', /^Line 2, column "name"/, false],
    ['NUL in a cell', 'n,name\n1,a\u0000\n', /^Line 2, column "name"/, true],
    ['invalid UTF-8', Buffer.from('{"n":1}\n{"name":"\xff"}\n', 'latin1'), /^Line 2: .*UTF-8/, false],
    ['invalid UTF-8 in a cell', Buffer.from('n,name\n1,\xff\n', 'latin1'), /^Line 2: .*not valid UTF-8/, true],
    ['a record in two lines', '{"n":\n1}\n', /^Line 1: not valid JSON/, false],
    ['two records in a line', '{"n":1} {"n":2}\n', /^Line 1: not valid JSON/, false],
    ['two in a line and one in two', '{"n":1} {"n":2}\n{"n":\n3}\n', /^Line 1: not valid JSON/, false],
    ['an array', '[{"n":1}]\n', /^Line 1 is an array/, false],
    ['a key twice', '{"n":1,"n":2}\n', /^Line 1 has the key "n" twice/, false],
    ['deep nesting', `{"name":${'['.repeat(200)}${']'.repeat(200)}}\n`, /^Line 1: .*100 levels/, false],
    ['a prototype', '{"__proto__":{"n":1}}\n', /^Line 1: table .* has no column "__proto__"/, false],
    ['a header twice', 'n,name,n\n1,a,2\n', /column "n" twice/, true],
    ['no header', '', /no header line/, true],
    ['an unknown column', 'n,nam\n1,a\n', /no column "nam". Did you mean "name"/, true],
    ['a header without a name', 'n,,name\n1,a,b\n', /column without a name/, true],
    ['a prototype as a column', '__proto__,n\na,1\n', /no column "__proto__"/, true],
    ['a second header line', 'n,name\n1,a\nn,name\n', /^Line 3, column "n": "n" is not an integer/, true],
    ['1,600 columns', columns(1_600), /no column "c0"/, true],
    ['1,601 columns', columns(1_601), /names 1601 columns/, true],
    ['a million columns', columns(1_000_000), /names 1000000 columns/, true],
    ['a line of 100 MB', Buffer.alloc(100_000_000, '{"name":"x"'), /^Line 1: the record is larger than/, false],
    ['an open quote', 'n,name\n1,"a\n2,b\n', /^Line 2: a quote is not closed/, true],
    ['text after a quote', 'n,name\n1,"a"b\n', /^Line 2: text follows a closing quote/, true],
  ];
  it.each(wrong)('%s', async (_, body, message, isCsv) => {
    const table = await newTable();
    const response = await (isCsv ? sendCsv(table, body) : send(table, body));
    expect([400, 413]).toContain(response.status);
    const failure = expectFailure(response, response.status, String(response.body['error']));
    expect(failure.message).toMatch(message);
    expect(failure).toMatchObject({ stored_rows: 0, stored_bytes: 0 });
    expect(await countIn(table)).toBe(0);
  });

  it('gzip that is cut off, or none', async () => {
    const table = await newTable();
    const packed = gzipSync(lines(100_000));
    const cut = await send(table, packed.subarray(0, packed.length - 20), '', { 'content-encoding': 'gzip' });
    const failure = expectFailure(cut, 400, 'invalid_request');
    expect(failure.message).toBe('The gzip of the body ends too early');
    expect(failure.stored_rows).toBeGreaterThanOrEqual(10_000);
    expect(await countIn(table)).toBe(failure.stored_rows);
    expectFailure(await send(table, lines(1), '', { 'content-encoding': 'gzip' }), 400, 'invalid_request');
    expectFailure(await send(table, lines(1), '', { 'content-encoding': 'br' }), 415, 'unsupported_media_type');
  });

  it('gzip of a line of 100 MB', async () => {
    const table = await newTable();
    const packed = gzipSync(Buffer.alloc(100_000_000, 'x'), { level: 1 });
    const response = await send(table, packed, '', { 'content-encoding': 'gzip' });
    const failure = expectFailure(response, 413, 'payload_too_large');
    expect(failure).toMatchObject({ errors: [{ line: 1, offset: 0 }], stored_rows: 0 });
    expect(await countIn(table)).toBe(0);
  });

  it('invalid UTF-8 and NUL in a later chunk: what was stored before stays', async () => {
    for (const [text, code] of [
      ['{"name":"\xff"}\n', 'invalid_json'],
      ['{"name":"\\u0000"}\n', 'invalid_value'],
    ] as const) {
      const table = await newTable();
      const good = lines(20_000);
      const body = Buffer.concat([Buffer.from(good), Buffer.from(text, 'latin1'), Buffer.from(lines(15_000))]);
      const failure = expectFailure(await send(table, body), 400, code);
      expect(failure).toMatchObject({ stored_rows: 20_000, stored_bytes: good.length });
      expect(failure.errors).toMatchObject([{ line: 20_001, offset: good.length }]);
      expect(await countIn(table)).toBe(20_000);
    }
  });

  it('a column that is called as the prototype', async () => {
    const table = await newTable();
    await project.rows(`ALTER TABLE ${table} ADD "__proto__" text, ADD "constructor" text`);
    expect((await sendCsv(table, '__proto__,constructor\na,b\n')).status).toBe(201);
    expect((await send(table, '{"__proto__":"c","constructor":"d"}\n')).status).toBe(201);
    const rows = await project.rows(`SELECT "__proto__" AS p, "constructor" AS c FROM ${table} ORDER BY 1`);
    expect(rows).toEqual([
      { p: 'a', c: 'b' },
      { p: 'c', c: 'd' },
    ]);
  });

  it('parameters that streams or batches do not have', async () => {
    const table = await newTable();
    for (const query of ['?return=ids', '?dry_run=true', '?delimiter=;', '?null=x', '?offset=1'])
      expectFailure(await send(table, lines(1), query), 400, 'invalid_request');
    expectFailure(await sendCsv(table, 'n\n1\n', '?delimiter=ab'), 400, 'invalid_request');
    for (const query of ['?delimiter=;', '?null=x', '?offset=1']) {
      const batch = await project.call('POST', `/api/cdp/data/${table}${query}`, { body: [{ n: 1 }] });
      expectFailure(batch, 400, 'invalid_request');
    }
    const latin = await send(table, lines(1), '', { 'content-type': `${NDJSON}; charset=latin1` });
    expectFailure(latin, 415, 'unsupported_media_type');
    expect(await countIn(table)).toBe(0);
  });

  it('a Content-Length that lies', async () => {
    const table = await newTable();
    const socket = await connect(service.url);
    socket.end(`${head(table, 'content-length: 1000000')}${lines(10)}`);
    await received(socket, 5_000);
    await until(() => isIdle(service) && service.engine.liveRequests.list().length === 0);
    expect(await countIn(table)).toBe(0);
    // What follows the length is another request, and none.
    const short = await connect(service.url);
    short.write(`${head(table, 'content-length: 8')}{"n":1}\n{"n":2}\n`);
    expect((await received(short, 10_000)).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 201', 'HTTP/1.1 400']);
    expect(await countIn(table)).toBe(1);
  });
});

describe('the connection', () => {
  const firstOf = (socket: Awaited<ReturnType<typeof connect>>): Promise<string> =>
    new Promise((resolve) => socket.once('data', (data: Buffer) => resolve(data.toString())));

  it('stays usable after an error, and the rest of the body is discarded', async () => {
    const table = await newTable();
    const socket = await connect(service.url);
    const rest = lines(200_000);
    socket.write(`${head(table, `content-length: ${7 + rest.length}`)}no one\n${rest}`);
    socket.write(
      `GET /api/cdp/token HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer ${project.token}\r\n\r\n`,
    );
    const text = await received(socket, 10_000);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200']);
  });

  it('Expect: 100-continue is answered after token, scope and table', async () => {
    const table = await newTable();
    const expecting = 'content-length: 8\r\nexpect: 100-continue';
    const answerTo = async (text: string): Promise<string> => {
      const socket = await connect(service.url);
      socket.write(text);
      const answer = await firstOf(socket);
      socket.destroy();
      return answer;
    };
    const token = await project.tokenWith('sql:read');
    expect(await answerTo(head('no_table', expecting))).toMatch(/^HTTP\/1\.1 404/);
    expect(await answerTo(head(table, expecting).replace(project.token, 'cdp_none'))).toMatch(/^HTTP\/1\.1 401/);
    expect(await answerTo(head(table, expecting).replace(project.token, token))).toMatch(/^HTTP\/1\.1 403/);
    for (const [type, body] of [
      [NDJSON, '{"n":1}\n'],
      ['application/json', '[{"n":2}]'],
    ] as const) {
      const socket = await connect(service.url);
      const length = `content-length: ${body.length}\r\nexpect: 100-continue\r\nconnection: close`;
      socket.write(head(table, length).replace(NDJSON, type));
      expect(await firstOf(socket)).toMatch(/^HTTP\/1\.1 100 Continue/);
      socket.write(body);
      expect(await received(socket, 5_000)).toMatch(/^HTTP\/1\.1 201/);
    }
    expect(await countIn(table)).toBe(2);
  });

  it('of a sender that is slow holds nothing of Postgres; one that is silent is refused', async () => {
    const table = await newTable();
    const silent = await connect(service.url);
    silent.write(`${head(table, 'content-length: 100')}{"n":1}\n`);
    const refusal = received(silent, 10_000);
    const slow = await connect(service.url);
    slow.write(head(table, 'transfer-encoding: chunked\r\nconnection: close'));
    const answer = received(slow, 20_000);
    // Longer than the body of a batch may take.
    for (const byte of '{"n":2}\n\n\n\n\n\n') {
      slow.write(`1\r\n${byte}\r\n`);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    expect(runningRequests(service)).toBe(0);
    const { placement } = await service.engine.projects.get(project.name);
    const busy = await inProject(service, placement, (client) =>
      client.query(`SELECT state, query FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`),
    );
    expect(busy.rows).toEqual([]);
    slow.write('0\r\n\r\n');
    expect(await answer).toMatch(/^HTTP\/1\.1 201/);
    expect(await refusal).toMatch(/^HTTP\/1\.1 408/);
    expect(await countIn(table)).toBe(1);
  });
});

describe('progress', () => {
  it('ends with the answer', async () => {
    const table = await newTable();
    const response = await send(table, lines(30_000), '', { accept: NDJSON });
    expect([response.status, response.headers.get('content-type')]).toEqual([201, NDJSON]);
    const said = response.text.trim().split('\n');
    expect(JSON.parse(said.at(-1) ?? '')).toMatchObject({ done: { inserted_rows: 30_000, chunks: 3 } });
    for (const line of said.slice(0, -1)) expect(line).toMatch(/^\{"progress":\{"rows":\d+,"bytes":\d+\}\}$/);
  });

  it('of a stream that fails before any line is a plain error', async () => {
    const table = await newTable();
    expectFailure(await send(table, 'no\n', '', { accept: NDJSON }), 400, 'invalid_json');
  });
});
