/** What holds for every route (contract C1, C2, C3): each test runs over all route tables. */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SCOPES } from '../../../src/contract/names.js';
import type { ErrorBody } from '../../../src/contract/wire/failure.js';
import type { Operation } from '../../../src/http/api/operation.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { checkResponse, pathOf, titled } from '../../support/routes.js';
import { snapshot, type Snapshot } from '../../support/schema.js';
import {
  type Call,
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

interface OpenApi {
  paths: Record<
    string,
    Record<string, { responses: Record<string, { content: Record<string, { examples?: object }> }> }>
  >;
}

const MIB = 1024 * 1024;
const WITH_BODY = OPERATIONS.filter((route) => route.body !== undefined);

/** One for each way of reading a body: as JSON for the route's schema, as records, and from Neon's driver. */
const READERS = ['POST /api/cdp/schema/table', 'POST /api/cdp/data/:table_name', 'POST /sql'];

/** A token in the right form that nobody has: six characters of checksum of forty-three zeros do not fit. */
const MISTYPED = `cdp_${'0'.repeat(49)}`;

let service: TestService;
let project: TestProject;
let inactive: TestProject;
let admin: string;
/** A token that may erase people, which none has by default. */
let officer: string;
let document: OpenApi;
let before: Snapshot;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('kept', { a: 'TEXT' });
  // The table of the routes' examples: what is refused would be stored here.
  await project.table('customers', { email: 'TEXT', age: 'INTEGER', signed_up: 'TIMESTAMP' });
  expect((await project.call('PUT', '/api/cdp/events', { body: {} })).status).toBe(200);
  before = await snapshot(project);
  inactive = await service.project();
  await service.engine.projects.setActive(inactive.name, false, BY_ITSELF);
  officer = await project.tokenWith('subjects:erase');
  admin = (await service.engine.tokens.create(null)).token;
  document = (await service.call('GET', '/openapi.json')).body as unknown as OpenApi;
});
afterAll(() => service.close());

/** A token that may do what the route does. */
const tokenFor = ({ access }: Operation): string =>
  access === 'admin' ? admin : access.includes('subjects:erase') ? officer : project.token;

const send = (route: Operation, call: Call = {}): Promise<TestResponse> =>
  service.call(route.method, pathOf(route), { token: tokenFor(route), ...call });

/** A refusal in the usual shape (contract C2.1), with the usual headers, and foreseen by the OpenAPI document. */
function refusal(route: Operation, response: TestResponse, status: number, code: string): ErrorBody {
  checkResponse(response);
  const error = expectFailure(response, status, code);
  const operation = document.paths[route.url.replace(/:(\w+)/g, '{$1}')]?.[route.method.toLowerCase()];
  expect(operation?.responses[status]?.content['application/json']?.examples).toHaveProperty(code);
  return error;
}

/** A body that is wrong in itself, to see that it is not looked at before the caller is. */
const garbage = (route: Operation): Call => (route.body === undefined ? {} : { body: '{"' });

describe.each(titled(OPERATIONS))('%s', (_title, route) => {
  it('requires a token, whatever the body', async () => {
    for (const call of [{}, garbage(route), route.body === undefined ? {} : { body: route.example }]) {
      const response = await send(route, { ...call, token: null });
      refusal(route, response, 401, 'unauthorized');
      expect(response.headers.get('www-authenticate')).toMatch(/^Bearer\b/);
    }
  });

  it('refuses a token that nobody has', async () => {
    const authorization = `Bearer ${MISTYPED}`;
    const response = await send(route, { ...garbage(route), token: null, headers: { authorization } });
    refusal(route, response, 401, 'unauthorized');
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer\b/);
  });

  it('refuses a revoked token and an expired one, with different messages', async () => {
    const projectId = route.access === 'admin' ? null : project.id;
    const revoked = await service.engine.tokens.create(projectId);
    await service.engine.tokens.revoke(revoked.details.id, {}, BY_ITSELF);
    const response = await send(route, { ...garbage(route), token: revoked.token });
    refusal(route, response, 401, 'unauthorized');
    expect(response.headers.get('www-authenticate')).toContain('error="invalid_token"');

    const expired = await service.engine.tokens.create(projectId, { expiresAt: new Date(Date.now() - 1) });
    const late = await send(route, { ...garbage(route), token: expired.token });
    refusal(route, late, 401, 'token_expired');
    expect(late.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  it('refuses a token without its scope and names the scope, whatever the body', async () => {
    const { access } = route;
    if (access === 'admin') {
      refusal(route, await send(route, { ...garbage(route), token: project.token }), 403, 'insufficient_scope');
      return;
    }
    if (access === 'any') {
      for (const token of [await project.tokenWith('sql:read'), admin]) {
        expect((await send(route, { token })).status).toBe(route.success.status);
      }
      return;
    }
    const others = SCOPES.filter((scope) => !access.includes(scope));
    const response = await send(route, { ...garbage(route), token: await project.tokenWith(...others) });
    const { message } = refusal(route, response, 403, 'insufficient_scope');
    expect(message).toBe(`The token lacks the scope ${access.join(' or ')}`);
    expect(response.headers.get('www-authenticate')).toContain('error="insufficient_scope"');
    refusal(route, await send(route, { ...garbage(route), token: admin }), 403, 'insufficient_scope');
  });

  it('refuses an inactive project, whatever the body and the scopes', async () => {
    const expected = route.access === 'admin' ? 'insufficient_scope' : 'cdp_inactive';
    for (const token of [inactive.token, await inactive.tokenWith('schema:read')]) {
      refusal(route, await send(route, { ...garbage(route), token }), 403, expected);
    }
  });

  it('honors an Idempotency-Key or refuses it, and ignores it only on reads', async () => {
    if (route.method === 'GET' || route.key === 'accepted') return;
    const body = route.body === undefined ? {} : { body: route.example };
    const response = await send(route, { ...body, headers: { 'idempotency-key': 'k' } });
    const { message, hint } = refusal(route, response, 400, 'invalid_request');
    expect(message).toBe('This request does not support an Idempotency-Key');
    expect(hint).toContain('Send it without the key.');
  });

  it('refuses a query parameter that it does not know', async () => {
    const path = pathOf(route);
    const body = route.body === undefined ? {} : { body: route.example };
    const url = `${path}${path.includes('?') ? '&' : '?'}nonsense=1`;
    const response = await service.call(route.method, url, { token: tokenFor(route), ...body });
    expect(refusal(route, response, 400, 'invalid_request').message).toContain('nonsense');
  });

  it('refuses other methods and lists the allowed ones', async () => {
    const methods = OPERATIONS.filter(({ url }) => url === route.url).map(({ method }) => method as string);
    if (methods.includes('GET')) methods.push('HEAD');
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'].filter((m) => !methods.includes(m))) {
      const response = await service.call(method, pathOf(route), { token: tokenFor(route) });
      checkResponse(response);
      expectFailure(response, 405, 'method_not_allowed');
      expect(response.headers.get('allow')?.split(/, ?/).sort()).toEqual([...methods].sort());
    }
  });
});

/** What one hook does for every route: routes of an admin, of a project, and of everybody. */
const OF_EACH_KIND = (['admin', 'any', 'project'] as const).map(
  (kind) => OPERATIONS.find(({ access }) => (typeof access === 'string' ? access : 'project') === kind) as Operation,
);

describe.each(titled(OF_EACH_KIND))('%s', (_title, route) => {
  it.each([
    ['another scheme', 'Basic dXNlcjpwYXNz'],
    ['no scheme', MISTYPED],
    ['no token', 'Bearer '],
    ['two tokens', `Bearer ${MISTYPED} ${MISTYPED}`],
    ['something short', 'Bearer x'],
    ['a wrong checksum', `Bearer ${MISTYPED}`],
    ['SQL', `Bearer cdp_' OR 1=1 --`],
    ['three parts like a JWT', 'Bearer eyJhbGciOiJub25lIn0.eyJwcm9qZWN0IjoieCJ9.x'],
    ['a very long token', `Bearer cdp_${'A'.repeat(8_000)}`],
  ])('refuses %s', async (_what, authorization) => {
    const response = await send(route, { ...garbage(route), token: null, headers: { authorization } });
    refusal(route, response, 401, 'unauthorized');
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer\b/);
  });

  it('uses a valid X-Request-Id, and generates one in place of any other', async () => {
    for (const id of ['a', 'req-1/2:3.4_5+6=', 'x'.repeat(128)]) {
      const response = await send(route, { token: null, headers: { 'x-request-id': id } });
      expect(response.headers.get('x-request-id')).toBe(id);
      expect(refusal(route, response, 401, 'unauthorized').request_id).toBe(id);
    }
    for (const id of ['', 'x'.repeat(129), 'a b', '<script>', 'a"b', 'a\tb', "'; DROP TABLE kept; --", 'é']) {
      const response = await send(route, { token: null, headers: { 'x-request-id': id } });
      expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
      refusal(route, response, 401, 'unauthorized');
    }
  });
});

describe('the error names the way that works', () => {
  it.each([
    ['GET', '/api/cdp/tables', 'GET /api/cdp/schema lists them'],
    ['POST', '/api/cdp/query', 'POST /api/cdp/sql'],
    ['POST', '/api/cdp/customers/records', 'POST /api/cdp/data/TABLE'],
    ['GET', '/api/cdp/projects', '/api/cdp/admin/'],
    ['GET', '/api/cdp/nothing', 'GET /openapi.json'],
  ])('for %s %s', async (method, path, hint) => {
    expect(expectFailure(await project.call(method, path), 404, 'not_found').hint).toContain(hint);
  });

  it('for a body that is not JSON', async () => {
    const call = { body: '{"a": 1}', headers: { 'content-type': 'application/x-ndjson' } };
    const response = await project.call('POST', '/api/cdp/sql', call);
    expect(expectFailure(response, 415, 'unsupported_media_type').hint).toContain('cdp import');
  });

  it('for a type that only SQL can make', async () => {
    const body = { name: 'price', type: 'NUMERIC' };
    const response = await project.call('POST', '/api/cdp/schema/table/kept/column', { body });
    expect(expectFailure(response, 400, 'unknown_type').hint).toContain('SQL can make a column of any type');
  });
});

describe.each(titled(WITH_BODY))('the body of %s', (_title, route) => {
  const others = [
    ...(route.rawBody === 'json-or-text' ? [] : ['text/plain']),
    'application/x-www-form-urlencoded',
    'application/jsonp',
    'text/json',
    'multipart/form-data',
    ...(route.streams ? [] : ['text/csv']),
    'application/json-seq',
    '',
  ];
  // SDKs send events as any type.
  it.each(route.rawBody === 'any' ? [] : others)('must not have the type "%s"', async (type) => {
    const response = await send(route, { body: JSON.stringify(route.example), headers: { 'content-type': type } });
    refusal(route, response, 415, 'unsupported_media_type');
  });

  it.each(['br', 'deflate', 'gzip, gzip', 'nonsense'])('must not be encoded as %s', async (encoding) => {
    const response = await send(route, {
      body: JSON.stringify(route.example),
      headers: { 'content-encoding': encoding },
    });
    refusal(route, response, 415, 'unsupported_media_type');
  });

  it.each<[string, string | Uint8Array]>([
    ['nothing', ''],
    ['white space', ' \n'],
    ['a beginning', '{"a":'],
    ['two values', '{} {}'],
    ['a comma too many', '{"a":1,}'],
    ['single quotes', "{'a':1}"],
    ['NaN', '[NaN]'],
    ['a comment', '{} // no'],
    ['a byte order mark', '\uFEFF{}'],
    ['bytes that are not UTF-8', Uint8Array.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['UTF-16', Buffer.from('{"a":1}', 'utf16le')],
    ['a control character in a string', '{"a":"\n"}'],
    ['an escape that is none', '{"a":"\\x41"}'],
  ])('must not be %s', async (_what, body) => {
    refusal(route, await send(route, { body, headers: { 'content-type': 'application/json' } }), 400, 'invalid_json');
  });

  it('must not contain a key twice', async () => {
    const body = Array.isArray(route.example) ? '[{"a":1,"b":2,"a":1}]' : '{"name":"x","name":"x"}';
    expect(refusal(route, await send(route, { body }), 400, 'invalid_json').message).toMatch(/twice/);
  });

  it('can be nested at most 100 levels deep', async () => {
    const isArray = Array.isArray(route.example);
    const nested = (depth: number) => {
      const inner = '['.repeat(depth) + ']'.repeat(depth);
      return isArray ? `[{"nested":${inner}}]` : `{"nested":${inner}}`;
    };
    const around = isArray ? 2 : 1;
    const deepest = await send(route, { body: nested(100 - around) });
    expect(deepest.status).toBeLessThan(500);
    expect(deepest.body.error).not.toBe('invalid_json');
    refusal(route, await send(route, { body: nested(101 - around) }), 400, 'invalid_json');
  });

  it('is decompressed if it is declared as gzip', async () => {
    const gzip = { 'content-encoding': 'gzip' };
    const whole = gzipSync(JSON.stringify(route.example));
    const wrongSum = Buffer.from(whole);
    wrongSum.writeUInt8(wrongSum.readUInt8(wrongSum.length - 8) ^ 1, wrongSum.length - 8);
    const cut = [whole.subarray(0, -9), whole.subarray(0, -4), Buffer.from([0x1f, 0x8b]), Buffer.alloc(0)];
    for (const body of [JSON.stringify(route.example), wrongSum, ...cut]) {
      refusal(route, await send(route, { body, headers: gzip }), 400, 'invalid_request');
    }
    // Unpacked it is read like any other.
    refusal(route, await send(route, { body: gzipSync('{"'), headers: gzip }), 400, 'invalid_json');
  });

  it('must have the right shape', async () => {
    const wrong = Array.isArray(route.example) ? ['{}', '1', 'null', '"x"', '[1]'] : ['[]', '1', 'null', '"x"'];
    for (const body of wrong) refusal(route, await send(route, { body }), 400, 'invalid_request');
    if (Array.isArray(route.example) || route.rawBody === 'any') return;
    for (const key of ['unknown_field', '__proto__', 'constructor']) {
      const body = `${JSON.stringify(route.example).slice(0, -1)},${JSON.stringify(key)}:1}`;
      const { message } = refusal(route, await send(route, { body }), 400, 'invalid_request');
      expect(message).toContain(key);
    }
  });

  it.each([
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'Application/JSON',
    ...(route.rawBody === 'json-or-text' ? ['text/plain', 'text/plain;charset=UTF-8'] : []),
  ])('can have the type "%s"', async (type) => {
    const response = await send(route, { body: '{"', headers: { 'content-type': type } });
    refusal(route, response, 400, 'invalid_json');
  });
});

describe.each(titled(OPERATIONS).filter(([title]) => READERS.includes(title)))(
  'a large body of %s',
  (_title, route) => {
    it('can be nested at most 100 levels deep', async () => {
      refusal(route, await send(route, { body: '['.repeat(5 * MIB) }), 400, 'invalid_json');
      refusal(route, await send(route, { body: '{"a":'.repeat(MIB) }), 400, 'invalid_json');
    });

    it('can have at most 10 MiB, compressed or not', async () => {
      const gzip = { 'content-encoding': 'gzip' };
      // It would be a good request without the last byte.
      const tooLong = JSON.stringify(route.example).padEnd(10 * MIB + 1);
      refusal(route, await send(route, { body: tooLong }), 413, 'payload_too_large');
      refusal(route, await send(route, { body: gzipSync(tooLong), headers: gzip }), 413, 'payload_too_large');
      const bomb = gzipSync(Buffer.alloc(200 * MIB, ' '));
      expect(bomb.length).toBeLessThan(MIB);
      refusal(route, await send(route, { body: bomb, headers: gzip }), 413, 'payload_too_large');
      // At the limit it is read: what is wrong with it then is that there is nothing in it.
      const full = ' '.repeat(10 * MIB);
      refusal(route, await send(route, { body: full }), 400, 'invalid_json');
      refusal(route, await send(route, { body: gzipSync(full), headers: gzip }), 400, 'invalid_json');
    });
  },
);

it('covers each way to read a body in the tests with large bodies', () => {
  expect(titled(WITH_BODY).map(([title]) => title)).toEqual(expect.arrayContaining(READERS));
});

describe('a path that no route has', () => {
  it.each([
    '/',
    '/api',
    '/api/cdp',
    '/api/cdp/',
    '/api/cdp/nope',
    '/api/cdp/schema/',
    '/api/cdp/schema/table/a/b',
    '/api/cdp/schema/table/a/column/b/c',
    '/api/cdp/data',
    '/api/cdp/admin',
    '/api/v1/cdp/sql',
    '/API/CDP/sql',
    '//api/cdp/sql',
    '/etc/passwd',
    '/..%2f..%2fpackage.json',
    '/docs/static/..%2f..%2fpackage.json',
    '/docs/static/nothing.js',
    '/favicon.ico',
  ])('%s gets 404 in every method, with a token and without', async (path) => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      for (const token of [project.token, null]) {
        const response = await service.call(method, path, { token });
        expect(response.text).not.toMatch(/node_modules|ENOENT|\bat \S+ \(/);
        expect(response.headers.get('server-timing')).toBeTruthy();
        if (path.startsWith('/api/cdp')) expect(response.headers.get('cache-control')).toBe('no-store');
        expect(expectFailure(response, 404, 'not_found').message.length).toBeLessThan(500);
      }
    }
  });
});

describe('a path with a name of maximum length', () => {
  it.each(['', 'a'.repeat(501), 'a'.repeat(12_000)])('does not match a table', async (name) => {
    const path = `/api/cdp/schema/table/${name}`;
    const response = await project.call('GET', path);
    checkResponse(response);
    expect(expectFailure(response, 404, 'table_not_found').message.length).toBeLessThan(500);
    expectFailure(await service.call('GET', path), 401, 'unauthorized');
  });
});

it.each(['/api/cdp/schema/table/', '/api/cdp/data/', '/api/cdp/schema/table/kept/column/', '/api/cdp/admin/projects/'])(
  '%s is not the path without the slash, nor that of an empty name in another method',
  async (path) => {
    expectFailure(await project.call('PATCH', path), 404, 'not_found');
    expect((await project.call('POST', path, { body: {} })).status).toBe(404);
  },
);

it('suggests the right parameter for a misspelled one, and the right request for another method on records', async () => {
  for (const [query, hint] of [
    ['onconflict=id', 'Did you mean "on_conflict"?'],
    ['return=ids&dryrun=true', 'Did you mean "dry_run"?'],
    [
      'upsert',
      'The parameters are return, on_error, on_conflict, delimiter, null, offset, atomic, resolution, unknown, version, unchanged, merge_json, dry_run',
    ],
  ] as const) {
    const response = await project.call('POST', `/api/cdp/data/kept?${query}`, { body: [{}] });
    expect(expectFailure(response, 400, 'invalid_request').hint).toBe(hint);
  }
  const read = await project.call('GET', '/api/cdp/data/kept');
  expect(expectFailure(read, 405, 'method_not_allowed').hint).toContain('POST /api/cdp/sql');
});

describe('routes without a token', () => {
  it.each(['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/console'])(
    '%s refuses other methods with 405',
    async (path) => {
      for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
        const response = await service.call(method, path);
        expectFailure(response, 405, 'method_not_allowed');
        expect(response.headers.get('allow')).toBe('GET, HEAD');
      }
    },
  );

  it.each(['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs/'])(
    '%s also returns a request id and Server-Timing',
    async (path) => {
      const response = await service.call('GET', path, { headers: { 'x-request-id': 'mine' } });
      expect(response.status).toBe(200);
      expect(response.headers.get('x-request-id')).toBe('mine');
      expect(response.headers.get('server-timing')).toMatch(/total;dur=/);
    },
  );
});

describe('responses of success', () => {
  it('carry the common headers, also on streams', async () => {
    for (const accept of ['application/json', 'application/x-ndjson', 'text/csv']) {
      const body = { sql: 'SELECT 1 AS one' };
      const response = await project.call('POST', '/api/cdp/sql', {
        body,
        headers: { accept, 'x-request-id': 'mine' },
      });
      expect(response.status).toBe(200);
      expect(response.headers.get('x-request-id')).toBe('mine');
      expect(response.headers.get('server-timing')).toMatch(/total;dur=/);
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
    for (const path of ['/api/cdp/schema', '/api/%63dp/schema', '/%61pi/cdp/token'])
      checkResponse(await project.call('GET', path));
  });

  it('are sent for HEAD without a body if there is a GET', async () => {
    const response = await project.call('HEAD', '/api/cdp/schema');
    expect(response.status).toBe(200);
    expect(response.text).toBe('');
    expect((await project.call('HEAD', '/api/cdp/schema/table/nothing')).status).toBe(404);
    expect((await project.call('HEAD', '/api/cdp/schema', { token: null })).status).toBe(401);
  });
});

it('none of these refusals has changed anything', async () => {
  expect(await snapshot(project)).toEqual(before);
});
