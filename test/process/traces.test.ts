/** Traces: what a collector gets from the running service by the standard variables, and what happens without one. */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Collector, type ReceivedSpan, startCollector } from '../support/collector.js';
import {
  endEverything,
  eventually,
  firstToken,
  freePort,
  newDataDir,
  type RunningService,
  startProgram,
  startServe,
} from '../support/program.js';
import { call, type TestResponse } from '../support/service.js';

let dataDir: string;
let collector: Collector;
beforeAll(async () => {
  dataDir = await newDataDir();
});
afterAll(endEverything);

const TABLE = 'hidden_table';
const SECRET = 'hidden value';
const [SERVER, CLIENT] = [2, 3];
const [UNSET, ERROR] = [0, 2];

const newTrace = () => ({ traceId: randomBytes(16).toString('hex'), spanId: randomBytes(8).toString('hex') });
const traceparent = ({ traceId, spanId }: ReturnType<typeof newTrace>, flags = '01') =>
  `00-${traceId}-${spanId}-${flags}`;

interface Traced {
  service: RunningService;
  token: string;
  post(path: string, body: unknown, headers?: Record<string, string>, token?: string): Promise<TestResponse>;
  insert(headers?: Record<string, string>): Promise<TestResponse>;
}

/** With a collector that gets JSON soon, unless the variables say otherwise. */
async function start(env: Record<string, string>, ...args: string[]): Promise<Traced> {
  const preset = { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_BSP_SCHEDULE_DELAY: '50' };
  const service = await startServe(['--data-dir', dataDir, ...args], { env: { ...preset, ...env } });
  const token = await firstToken(dataDir);
  const post: Traced['post'] = (path, body, headers = {}, as = token) =>
    call(service.url, 'POST', path, { token: as, body, headers });
  const insert: Traced['insert'] = (headers) => post(`/api/cdp/data/${TABLE}`, [{ note: SECRET }], headers);
  await post('/api/cdp/schema/table', { table_name: TABLE, columns: [{ name: 'note', type: 'TEXT' }] });
  return { service, token, post, insert };
}

/** The first span of the trace of that kind, once it has come. */
const spanOf = (traceId: unknown, kind: number, name?: string): Promise<ReceivedSpan> =>
  eventually(`a span of ${String(traceId)} arrives`, () =>
    Promise.resolve(
      collector
        .spans()
        .find((span) => span.traceId === traceId && span.kind === kind && (name === undefined || span.name === name)),
    ),
  );

/** The log's line of the request that was answered so. */
const lineOf = ({ service }: Traced, { headers }: TestResponse): Promise<Record<string, unknown>> =>
  eventually('its line is in the log', () =>
    Promise.resolve(
      service.log().find((line) => line.request_id === headers.get('x-request-id') && line.msg === 'request'),
    ),
  );

describe('with a collector', () => {
  let traced: Traced;
  beforeAll(async () => {
    collector = await startCollector();
    traced = await start(
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-api-key=an%20api%20key',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=tests,service.name=other',
        OTEL_SERVICE_NAME: 'cdp-tests',
      },
      ...['--project-running', '2', '--project-reserved', '1', '--project-waiting', '0'],
    );
  });
  afterAll(async () => {
    expect((await traced.service.end()).code).toBe(0);
    await collector.close();
  });

  it('an insert has a server span and a database span, in the trace of the caller', async () => {
    await traced.insert();
    const caller = newTrace();
    const response = await traced.insert({ traceparent: traceparent(caller), tracestate: 'vendor=1,other=2' });
    expect(response.status).toBe(201);
    const server = await spanOf(caller.traceId, SERVER);
    expect(server).toMatchObject({
      parentSpanId: caller.spanId,
      traceState: 'vendor=1,other=2',
      name: 'POST /api/cdp/data/{table_name}',
      events: [{ name: 'authenticated' }, { name: 'body read' }],
    });
    expect(server.status.code).toBe(UNSET);
    expect(server.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/api/cdp/data/{table_name}',
      'url.path': '/api/cdp/data/{table_name}',
      'url.scheme': 'http',
      'http.response.status_code': 201,
      'cdp.request_id': response.headers.get('x-request-id'),
      'cdp.rows': 1,
    });
    const database = await spanOf(caller.traceId, CLIENT);
    expect(database).toMatchObject({ parentSpanId: server.spanId, name: 'COPY' });
    expect(database.attributes).toEqual({ 'db.system.name': 'postgresql', 'db.operation.name': 'COPY' });
  });

  it('the log line contains the IDs of the span', async () => {
    const caller = newTrace();
    const line = await lineOf(traced, await traced.insert({ traceparent: traceparent(caller) }));
    const { spanId } = await spanOf(caller.traceId, SERVER);
    expect(line).toMatchObject({ trace_id: caller.traceId, span_id: spanId });
  });

  it('a request without a trace, or with an invalid one, starts its own', async () => {
    for (const header of [undefined, 'garbage', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`]) {
      const line = await lineOf(
        traced,
        await traced.insert(header === undefined ? {} : { traceparent: header, tracestate: 'a=1' }),
      );
      const span = await spanOf(line.trace_id, SERVER);
      expect([span.parentSpanId || undefined, span.traceState || undefined]).toEqual([undefined, undefined]);
    }
  });

  it('a trace that its caller does not sample is not sampled here, and the log still has its ID', async () => {
    const [unsampled, sampled] = [newTrace(), newTrace()];
    const line = await lineOf(traced, await traced.insert({ traceparent: traceparent(unsampled, '00') }));
    expect(line.trace_id).toBe(unsampled.traceId);
    await traced.insert({ traceparent: traceparent(sampled) });
    await spanOf(sampled.traceId, SERVER);
    expect(collector.spans().filter(({ traceId }) => traceId === unsampled.traceId)).toEqual([]);
  });

  it('an error of the caller is not an error of the server', async () => {
    const cases: [number, string, Promise<TestResponse>][] = [
      [400, 'invalid_value', traced.post(`/api/cdp/data/${TABLE}`, [{ note: { a: 1 } }])],
      [401, 'unauthorized', traced.post('/api/cdp/sql', { sql: 'SELECT 1' }, {}, 'wrong')],
      [404, 'not_found', traced.post('/hidden_path', {})],
    ];
    for (const [status, code, answered] of cases) {
      const response = await answered;
      expect(response.status).toBe(status);
      const { trace_id: traceId } = await lineOf(traced, response);
      const span = await spanOf(traceId, SERVER);
      expect(span.status.code).toBe(UNSET);
      expect(span.attributes).toMatchObject({ 'http.response.status_code': status, 'cdp.error': code });
      expect(span.attributes).not.toHaveProperty(['error.type']);
    }
  });

  it('a statement that Postgres refuses is an error of the database span, with its SQLSTATE', async () => {
    const { trace_id: traceId } = await lineOf(traced, await traced.post('/api/cdp/sql', { sql: 'SELECT 1/0' }));
    const span = await spanOf(traceId, CLIENT);
    expect(span).toMatchObject({ name: 'postgresql', status: { code: ERROR } });
    expect(span.attributes).toMatchObject({ 'error.type': 'sql_error', 'db.response.status_code': '22012' });
  });

  it('503 is an error of the server', async () => {
    // There is one place: of two statements at once, one finds none.
    const sleep = () => traced.post('/api/cdp/sql', { sql: 'SELECT pg_sleep(1)' });
    const response = await eventually('there is no place left', async () => {
      const both = await Promise.all([sleep(), sleep()]);
      return both.find(({ status }) => status === 503) ?? false;
    });
    const { trace_id: traceId } = await lineOf(traced, response);
    const span = await spanOf(traceId, SERVER);
    expect(span.status.code).toBe(ERROR);
    expect(span.attributes).toMatchObject({ 'http.response.status_code': 503, 'error.type': 'overloaded' });
  });

  it('probes leave no spans', async () => {
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      expect((await call(traced.service.url, 'GET', path)).status).toBe(200);
    }
    const last = newTrace();
    await traced.insert({ traceparent: traceparent(last) });
    await spanOf(last.traceId, SERVER);
    const routes = collector.spans().map(({ attributes }) => attributes['http.route'] ?? '/api');
    expect(routes).not.toEqual(expect.arrayContaining([expect.stringMatching(/^\/(healthz|readyz|metrics)$/)]));
  });

  it('the collector gets what the variables say, and nothing of the caller', () => {
    expect(collector.headers.at(-1)).toMatchObject({ 'x-api-key': 'an api key', 'content-type': 'application/json' });
    expect(collector.resource()).toMatchObject({
      'service.name': 'cdp-tests',
      'service.version': expect.any(String) as string,
      'service.instance.id': expect.any(String) as string,
      'deployment.environment.name': 'tests',
    });
    const everything = collector.bodies.map(String).join('\n');
    for (const text of [TABLE, SECRET, traced.token, 'default', 'hidden_path', 'pg_sleep', 'note']) {
      expect(everything).not.toContain(text);
    }
  });
});

describe('with settings', () => {
  let traced: Traced;
  beforeAll(async () => void (collector = await startCollector()));
  afterEach(async () => void (await traced.service.end()));
  afterAll(() => collector.close());

  it('spans contain the project, the table and the text of free SQL, and never a parameter', async () => {
    traced = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, CDP_TRACE_DETAIL: 'statements' });
    await traced.insert();
    const [insert, sql] = [newTrace(), newTrace()];
    await traced.insert({ traceparent: traceparent(insert) });
    expect((await spanOf(insert.traceId, SERVER)).attributes).toMatchObject({
      'url.path': `/api/cdp/data/${TABLE}`,
      'client.address': '127.0.0.1',
      'cdp.project': 'default',
    });
    const call = await spanOf(insert.traceId, CLIENT);
    expect([call.name, call.attributes['db.collection.name']]).toEqual([`COPY ${TABLE}`, TABLE]);
    const text = `SELECT $1::text AS x FROM ${TABLE}`;
    await traced.post('/api/cdp/sql', { sql: text, params: [SECRET] }, { traceparent: traceparent(sql) });
    expect((await spanOf(sql.traceId, CLIENT)).attributes['db.query.text']).toBe(text);
    expect(collector.bodies.map(String).join('')).not.toContain(SECRET);
  });

  it('inserts that share a COPY are linked to it', async () => {
    traced = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const { shared, links } = await eventually('inserts share a COPY', async () => {
      await Promise.all(Array.from({ length: 20 }, () => traced.insert()));
      const copy = collector.spans().find(({ name, links: others = [] }) => name === 'COPY' && others.length > 0);
      return copy && { shared: copy, links: copy.links };
    });
    for (const { traceId } of links) {
      const other = await spanOf(traceId, SERVER);
      expect(other.links.map(({ spanId }) => spanId)).toContain(shared.spanId);
      expect(other.traceId).not.toBe(shared.traceId);
    }
  });

  it('a request that waits for a slot shows its wait', async () => {
    const few = ['--project-running', '2', '--project-reserved', '1'];
    traced = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }, ...few);
    const traces = [newTrace(), newTrace()];
    await Promise.all(
      traces.map((trace) =>
        traced.post('/api/cdp/sql', { sql: 'SELECT pg_sleep(2)' }, { traceparent: traceparent(trace) }),
      ),
    );
    const servers = await Promise.all(traces.map(({ traceId }) => spanOf(traceId, SERVER)));
    const ours = new Set(traces.map(({ traceId }) => traceId));
    const waits = collector.spans().filter(({ name, traceId }) => name === 'wait for a slot' && ours.has(traceId));
    expect(waits).toHaveLength(1);
    expect(servers.map(({ spanId }) => spanId)).toContain(waits[0]?.parentSpanId);
  });

  it('the sampler and propagators can ignore the caller', async () => {
    traced = await start({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
      OTEL_TRACES_SAMPLER: 'always_on',
      OTEL_PROPAGATORS: 'none',
    });
    const caller = newTrace();
    const line = await lineOf(traced, await traced.insert({ traceparent: traceparent(caller, '00') }));
    expect(line.trace_id).not.toBe(caller.traceId);
    expect((await spanOf(line.trace_id, SERVER)).parentSpanId || undefined).toBeUndefined();
  });

  it('a stop sends what is left, as protobuf by default', async () => {
    traced = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: '',
      OTEL_BSP_SCHEDULE_DELAY: '3600000',
    });
    const caller = newTrace();
    await traced.insert({ traceparent: traceparent(caller) });
    const before = collector.bodies.length;
    expect((await traced.service.end()).code).toBe(0);
    const sent = collector.bodies.splice(before);
    expect(collector.headers.at(-1)).toMatchObject({ 'content-type': 'application/x-protobuf' });
    // Field 1 of a span, its trace's id, and field 5, its name: both with their length in front.
    const id = Buffer.concat([Buffer.from([0x0a, 16]), Buffer.from(caller.traceId, 'hex')]);
    const name = 'POST /api/cdp/data/{table_name}';
    expect(Buffer.concat(sent).includes(id)).toBe(true);
    expect(Buffer.concat(sent).includes(Buffer.concat([Buffer.from([0x2a, name.length]), Buffer.from(name)]))).toBe(
      true,
    );
  });
});

describe('without a collector', () => {
  it('requests continue if it does not respond, the log says so once, and a stop does not wait for it', async () => {
    const traced = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: '100',
    });
    const lost = () => traced.service.log().filter(({ msg }) => String(msg).startsWith('spans do not reach'));
    await eventually('the log says so', async () => {
      expect((await traced.insert()).status).toBe(201);
      return lost().length > 0;
    });
    for (let n = 0; n < 20; n++) expect((await traced.insert()).status).toBe(201);
    const ended = await traced.service.end();
    expect([ended.code, ended.stderr, lost().length]).toEqual([0, '', 1]);
  });

  it('a stop gives up on one that accepts connections and never responds', async () => {
    const silent = await startCollector();
    await silent.close();
    const { createServer } = await import('node:net');
    const server = createServer(() => {}).listen(Number(new URL(silent.url).port), '127.0.0.1');
    const traced = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: silent.url, OTEL_EXPORTER_OTLP_TIMEOUT: '3600000' });
    expect((await traced.insert()).status).toBe(201);
    const ended = await traced.service.end();
    expect([ended.code, ended.signal]).toEqual([0, null]);
    expect(ended.stdout).toContain('"msg":"request"');
    server.close();
  });

  it.each<[string, Record<string, string>]>([
    ['switched off', { OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }],
    ['without an exporter', { OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }],
    ['where nothing is set', {}],
  ])('%s, the log has the IDs from the caller', async (_, env) => {
    const traced = await start(env);
    const caller = newTrace();
    const [given, none] = [await traced.insert({ traceparent: traceparent(caller) }), await traced.insert()];
    expect(await lineOf(traced, given)).toMatchObject({ trace_id: caller.traceId, span_id: caller.spanId });
    expect(await lineOf(traced, none)).not.toHaveProperty('trace_id');
    expect(await traced.service.end()).toMatchObject({ code: 0, stderr: '' });
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_TRACES_EXPORTER', 'zipkin'],
  ])('%s=%s is reported on standard error, and the service runs', async (name, value) => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', [name]: value };
    const service = startProgram(['serve', '--port', '0', '--data-dir', dataDir], { env });
    await eventually('it listens', () => Promise.resolve(service.log().some(({ msg }) => msg === 'listening')));
    const { code, stderr } = await service.end();
    expect([code, stderr]).toEqual([0, expect.stringMatching(new RegExp(`^cdp: no traces: ${name} .*"${value}"\n$`))]);
  });
});
