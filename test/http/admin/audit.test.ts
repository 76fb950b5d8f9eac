/** The audit log (docs/decisions/0017-audit-log.md): what each request records in it, and what never gets into it. */
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Credentials } from '../../../src/tenancy/credentials.js';
import { startService } from '../../../src/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { type AuditRow, auditRows, entriesOf, inControl } from '../../support/audit.js';
import { testServers } from '../../support/postgres.js';
import { openStream } from '../../support/stream.js';
import {
  call,
  type Call,
  expectFailure,
  onServer,
  SECRET,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
/** As docs/monitoring.md says. */
const keyedHash = (sql: string): string => `hmac:${hmac(hmac(SECRET, 'audit'), sql).toString('hex')}`;

let service: TestService;
let project: TestProject;
let admin: { token: string; details: { id: string } };
beforeAll(async () => {
  service = await startTestService();
  project = await service.project('shop');
  admin = await service.engine.tokens.create(null, { name: 'ops' });
});
afterAll(() => service.close());

/** A request with an id of its own, and the entries that it left. */
async function audited(
  method: string,
  path: string,
  given: Call = {},
  on: TestService = service,
): Promise<{ response: TestResponse; entries: AuditRow[] }> {
  const id = randomUUID();
  const headers = { ...given.headers, 'x-request-id': id };
  const response = await on.call(method, path, { token: project.token, ...given, headers });
  return { response, entries: await entriesOf(on, id) };
}

const idOfToken = async (token: string): Promise<string> => {
  const [row] = await inControl<{ id: string }>(service, 'SELECT id FROM cdp.tokens WHERE sha256 = $1', [
    createHash('sha256').update(token).digest(),
  ]);
  return row?.id ?? '';
};

describe('works:', () => {
  it('every operation of every route records one entry, with who, what, where and the outcome', async () => {
    const names = { name: 'sweep' };
    const schema = '/api/cdp/schema/table';
    const projects = '/api/cdp/admin/projects';
    const columns = [{ name: 'email', type: 'TEXT' }];
    const person = { identifiers: { email: {} }, tables: { swept: { columns: { email: 'email' }, erase: 'delete' } } };
    /** Each with the entry that it leaves, in an order in which each can be done. */
    const done: { operation: string; request: string; body?: unknown; object?: string; rows?: number }[] = [
      { operation: 'create_table', request: `POST ${schema}`, body: { table_name: 'swept', columns }, object: 'swept' },
      {
        operation: 'add_column',
        request: `POST ${schema}/swept/column`,
        body: { name: 'age', type: 'INTEGER' },
        object: 'swept.age',
      },
      {
        operation: 'alter_column',
        request: `PUT ${schema}/swept/column/age`,
        body: { new_name: 'years' },
        object: 'swept.age',
      },
      { operation: 'alter_table', request: `PUT ${schema}/swept`, body: { comment: 'x' }, object: 'swept' },
      {
        operation: 'insert',
        request: 'POST /api/cdp/data/swept',
        body: [{ email: 'a' }, { email: 'b' }],
        object: 'swept',
        rows: 2,
      },
      {
        operation: 'delete',
        request: 'DELETE /api/cdp/data/swept?by=id',
        body: [{ id: randomUUID() }],
        object: 'swept',
        rows: 0,
      },
      { operation: 'read_quarantine', request: 'GET /api/cdp/quarantine', rows: 0 },
      {
        operation: 'replay_quarantine',
        request: 'POST /api/cdp/quarantine/replay',
        body: { table: 'swept' },
        object: 'swept',
        rows: 0,
      },
      { operation: 'drop_quarantine', request: 'DELETE /api/cdp/quarantine?all=true', rows: 0 },
      { operation: 'receipts', request: 'GET /api/cdp/receipts/swept' },
      { operation: 'receipts', request: 'POST /api/cdp/receipts/query', body: { keys: ['swept'] } },
      { operation: 'sql', request: 'POST /api/cdp/sql', body: { sql: 'SELECT * FROM swept' }, rows: 2 },
      { operation: 'sql', request: 'POST /sql', body: { query: 'SELECT * FROM swept' }, rows: 2 },
      { operation: 'read_schema', request: 'GET /api/cdp/schema' },
      { operation: 'token.read', request: 'GET /api/cdp/token' },
      { operation: 'read_table', request: `GET ${schema}/swept`, object: 'swept' },
      {
        operation: 'distribute_table',
        request: `PUT ${schema}/swept/distribution`,
        body: { kind: 'local' },
        object: 'swept',
      },
      {
        operation: 'create_index',
        request: `POST ${schema}/swept/index`,
        body: { columns: ['email'] },
        object: 'swept',
      },
      { operation: 'read_indexes', request: `GET ${schema}/swept/index`, object: 'swept' },
      {
        operation: 'drop_index',
        request: `DELETE ${schema}/swept/index/swept_email_idx`,
        object: 'swept.swept_email_idx',
      },
      { operation: 'set_events', request: 'PUT /api/cdp/events', body: {} },
      { operation: 'read_events', request: 'GET /api/cdp/events' },
      {
        operation: 'track',
        request: 'POST /v1/track',
        body: { event: 'Swept', userId: 'u', messageId: randomUUID() },
        rows: 1,
      },
      { operation: 'read_sdk_settings', request: 'GET /v1/projects/any/settings' },
      { operation: 'drop_events', request: 'DELETE /api/cdp/events' },
      { operation: 'read_feed', request: 'GET /api/cdp/feed' },
      { operation: 'drop_feed', request: 'DELETE /api/cdp/feed' },
      { operation: 'declare_subjects', request: 'PUT /api/cdp/subjects', body: { subjects: { person } } },
      { operation: 'read_subjects', request: 'GET /api/cdp/subjects' },
      { operation: 'propose_subjects', request: 'GET /api/cdp/subjects/proposal' },
      { operation: 'find_subject', request: 'POST /api/cdp/subjects/find', body: { person: { email: 'x' } }, rows: 0 },
      {
        operation: 'export_subject',
        request: 'POST /api/cdp/subjects/export',
        body: { person: { email: 'x' } },
        rows: 0,
      },
      { operation: 'read_subject_keys', request: 'GET /api/cdp/subjects/keys' },
      { operation: 'list_webhooks', request: 'GET /api/cdp/webhooks' },
      { operation: 'create_role', request: 'POST /api/cdp/schema/role', body: { name: 'intern' }, object: 'intern' },
      { operation: 'list_roles', request: 'GET /api/cdp/schema/role' },
      { operation: 'read_role', request: 'GET /api/cdp/schema/role/intern', object: 'intern' },
      { operation: 'drop_role', request: 'DELETE /api/cdp/schema/role/intern', object: 'intern' },
      { operation: 'save_query', request: 'PUT /api/cdp/queries/daily', body: { sql: 'SELECT 1' }, object: 'daily' },
      { operation: 'list_queries', request: 'GET /api/cdp/queries' },
      { operation: 'read_query', request: 'GET /api/cdp/queries/daily', object: 'daily' },
      { operation: 'run_query', request: 'POST /api/cdp/queries/daily/run', body: {}, object: 'daily', rows: 1 },
      { operation: 'delete_query', request: 'DELETE /api/cdp/queries/daily', object: 'daily' },
      {
        operation: 'save_schedule',
        request: 'PUT /api/cdp/schedules/nightly',
        body: { sql: 'SELECT 1', every: '1h' },
        object: 'nightly',
      },
      { operation: 'list_schedules', request: 'GET /api/cdp/schedules' },
      { operation: 'read_schedule', request: 'GET /api/cdp/schedules/nightly', object: 'nightly' },
      { operation: 'start_schedule', request: 'POST /api/cdp/schedules/nightly/run', object: 'nightly' },
      { operation: 'pause_schedule', request: 'POST /api/cdp/schedules/nightly/pause', object: 'nightly' },
      { operation: 'resume_schedule', request: 'POST /api/cdp/schedules/nightly/resume', object: 'nightly' },
      { operation: 'delete_schedule', request: 'DELETE /api/cdp/schedules/nightly', object: 'nightly' },
      {
        operation: 'save_segment',
        request: 'PUT /api/cdp/segments/all',
        body: { sql: 'SELECT 1 AS key', every: '1h' },
        object: 'all',
      },
      { operation: 'list_segments', request: 'GET /api/cdp/segments' },
      { operation: 'read_segment', request: 'GET /api/cdp/segments/all', object: 'all' },
      { operation: 'start_segment', request: 'POST /api/cdp/segments/all/run', object: 'all' },
      { operation: 'pause_segment', request: 'POST /api/cdp/segments/all/pause', object: 'all' },
      { operation: 'resume_segment', request: 'POST /api/cdp/segments/all/resume', object: 'all' },
      { operation: 'read_members', request: 'GET /api/cdp/segments/all/members', object: 'all', rows: 1 },
      { operation: 'delete_segment', request: 'DELETE /api/cdp/segments/all', object: 'all' },
      { operation: 'drop_column', request: `DELETE ${schema}/swept/column/years`, object: 'swept.years' },
      { operation: 'drop_table', request: `DELETE ${schema}/swept`, object: 'swept' },
      { operation: 'project.create', request: `POST ${projects}`, body: names },
      { operation: 'project.deactivate', request: `POST ${projects}/sweep/deactivate` },
      { operation: 'project.activate', request: `POST ${projects}/sweep/activate` },
      { operation: 'project.repair', request: `POST ${projects}/sweep/repair` },
      { operation: 'project.quota', request: `PUT ${projects}/sweep/quota`, body: { quota: '1GB' } },
      { operation: 'project.own_schemas', request: `PUT ${projects}/sweep/own-schemas`, body: { own_schemas: false } },
      { operation: 'project.plan_move', request: `GET ${projects}/sweep/move?to=default` },
      {
        operation: 'token.create',
        request: `POST ${projects}/sweep/tokens`,
        body: { name: 'importer' },
        object: 'TOKEN',
      },
      { operation: 'token.list', request: `GET ${projects}/sweep/tokens` },
      { operation: 'token.revoke', request: `DELETE ${projects}/sweep/tokens/TOKEN`, object: 'TOKEN' },
      { operation: 'project.rename', request: `PUT ${projects}/sweep/name`, body: { name: 'sweep' }, object: 'sweep' },
      { operation: 'project.list', request: `GET ${projects}` },
      { operation: 'project.delete', request: `DELETE ${projects}/sweep?confirm=sweep` },
      { operation: 'server.list', request: 'GET /api/cdp/admin/servers' },
      { operation: 'server.read', request: 'GET /api/cdp/admin/servers/default', object: 'default' },
      {
        operation: 'server.set',
        request: 'PUT /api/cdp/admin/servers/default',
        body: { weight: 2 },
        object: 'default',
      },
      { operation: 'server.check', request: 'POST /api/cdp/admin/servers/default/check', object: 'default' },
      { operation: 'server.clear', request: 'POST /api/cdp/admin/servers/default/clear', object: 'default' },
      { operation: 'move.plan_rebalance', request: 'GET /api/cdp/admin/rebalance' },
      { operation: 'move.list', request: 'GET /api/cdp/admin/moves' },
      { operation: 'audit.read', request: 'GET /api/cdp/admin/audit' },
      { operation: 'request.list', request: 'GET /api/cdp/admin/requests' },
      { operation: 'usage.read', request: 'GET /api/cdp/admin/usage' },
    ];
    /** Of the SQL that they run. */
    const hashes: Record<string, unknown> = {
      sql: keyedHash('SELECT * FROM swept'),
      run_query: keyedHash('SELECT 1'),
      read_members: expect.any(String),
    };
    // These need a request that runs (running-requests-ended.test.ts), or another Postgres (servers.test.ts,
    // moves.test.ts), or a server of the project's own (feed/reading.test.ts).
    const elsewhere = [
      ...['request.cancel', 'server.add', 'server.remove', 'project.move', 'move.read', 'move.cancel'],
      ...['set_feed', 'read_changes', 'read_snapshot'],
    ];
    // The token has no scope for these; test/http/subjects has one.
    elsewhere.push('erase_subject', 'list_erasures', 'read_erasure');
    // These need a feed (webhooks.test.ts).
    elsewhere.push(
      'create_webhook',
      'read_webhook',
      'change_webhook',
      'rotate_webhook_secret',
      'delete_webhook',
      'test_webhook',
      'list_webhook_deliveries',
      'replay_webhook',
    );
    const operations = OPERATIONS.map(({ audit }) => audit.operation).filter(
      (operation) => !elsewhere.includes(operation),
    );
    expect(done.map(({ operation }) => operation).sort()).toEqual(operations.sort());
    const projectToken = await idOfToken(project.token);
    let made = '';
    for (const { operation, request, body, object = null, rows = null } of done) {
      const [method = '', path = ''] = request.split(' ');
      const isAdmin = path.startsWith('/api/cdp/admin');
      const token = isAdmin ? admin.token : project.token;
      const { response, entries } = await audited(method, path.replace('TOKEN', made), { token, body });
      expect(response.status, `${operation}: ${response.text}`).toBeLessThan(300);
      if (operation === 'token.create') made = (response.body.details as { id: string }).id;
      expect.soft(entries, operation).toHaveLength(1);
      expect.soft(entries[0], operation).toMatchObject({
        operation,
        object: object === 'TOKEN' ? made : object,
        rows: rows === null ? null : String(rows),
        outcome: 'ok',
        status: response.status,
        address: expect.stringMatching(/127\.0\.0\.1$/) as string,
        actor: isAdmin ? 'admin' : 'token',
        actor_id: isAdmin ? admin.details.id : projectToken,
        actor_name: isAdmin ? 'ops' : 'default',
        project: isAdmin ? (/sweep/.test(path) || operation === 'project.create' ? 'sweep' : null) : 'shop',
        statement_sha256: hashes[operation] ?? null,
        statement: null,
        count: '1',
      });
      expect(entries[0]?.duration_ms).toBeGreaterThan(0);
      expect(Math.abs(Date.now() - (entries[0]?.at.getTime() ?? 0))).toBeLessThan(60_000);
    }
  });

  it('the entry of a deleted project still says which project it was', async () => {
    const { id } = await service.engine.projects.create('short-lived');
    await service.engine.projects.delete('short-lived', BY_ITSELF);
    const rows = (await auditRows(service)).filter((row) => row.project === 'short-lived');
    expect(rows.map(({ operation, project_id, actor }) => [operation, project_id, actor])).toEqual([
      ['project.create', id, 'service'],
      ['project.delete', id, 'service'],
    ]);
  });

  it('a repair records one entry that names the project, whoever asked for it', async () => {
    const { id } = await service.engine.projects.create('mended');
    const url = '/api/cdp/admin/projects/mended/repair';
    const { entries } = await audited('POST', url, { token: admin.token });
    expect(entries).toMatchObject([{ operation: 'project.repair', project_id: id, actor: 'admin', outcome: 'ok' }]);
    await service.engine.projects.repair('mended', BY_ITSELF);
    const rows = (await auditRows(service)).filter((row) => row.project_id === id);
    expect(rows.map(({ operation, actor }) => [operation, actor])).toEqual([
      ['project.create', 'service'],
      ['project.repair', 'admin'],
      ['project.repair', 'service'],
    ]);
  });

  it('clearing away the remains of a crash records an entry', async () => {
    const placement = await service.engine.servers.defaultTenancy.newPlacement();
    const id = randomUUID();
    await service.engine.control.projects.insert({
      id,
      name: 'half-made',
      status: 'creating',
      placement,
      schemaVersion: 1,
    });
    await service.engine.projects.unfinished.clear();
    const rows = (await auditRows(service)).filter((row) => row.project_id === id);
    expect(rows).toMatchObject([{ operation: 'repair', project: 'half-made', actor: 'service', outcome: 'ok' }]);
  });

  it('free SQL as the reader is distinguished from free SQL that could change something', async () => {
    const reader = await project.tokenWith('sql:read');
    for (const [token, body, operation] of [
      [project.token, { sql: 'SELECT 1' }, 'sql'],
      [project.token, { sql: 'SELECT 1', read_only: true }, 'sql_read'],
      [project.token, { sql: 'SELECT 1', read_only: false }, 'sql'],
      [reader, { sql: 'SELECT 1' }, 'sql_read'],
    ] as const) {
      const { entries } = await audited('POST', '/api/cdp/sql', { token, body });
      expect(entries.map((entry) => entry.operation)).toEqual([operation]);
    }
  });

  it.each(['application/x-ndjson', 'text/csv'])(
    'a finished stream of %s records its number of rows',
    async (accept) => {
      const body = { sql: 'SELECT * FROM generate_series(1, 20000)' };
      const { entries } = await audited('POST', '/api/cdp/sql', { body, headers: { accept } });
      expect(entries).toMatchObject([{ operation: 'sql', outcome: 'ok', rows: '20000', status: 200 }]);
    },
  );

  it('a stream that fails halfway records the code of its error', async () => {
    const body = { sql: 'SELECT 1 / (20000 - g) FROM generate_series(1, 20000) g' };
    const id = randomUUID();
    const headers = { accept: 'application/x-ndjson', 'x-request-id': id };
    await project.call('POST', '/api/cdp/sql', { body, headers }).catch(() => {});
    expect(await entriesOf(service, id)).toMatchObject([{ outcome: 'sql_error', rows: null, status: 200 }]);
  });

  it('a batch that is answered from its Idempotency-Key records no stored rows', async () => {
    await project.table('keyed', { a: 'TEXT' });
    const given = { body: [{ a: '1' }], headers: { 'idempotency-key': 'one' } };
    const first = await audited('POST', '/api/cdp/data/keyed', given);
    const second = await audited('POST', '/api/cdp/data/keyed', given);
    expect([first, second].map(({ entries }) => entries[0]?.rows)).toEqual(['1', '0']);
  });

  it('a client left: what was rolled back has the outcome client_gone, and what took effect is ok', async () => {
    await project.table('slow', { a: 'TEXT' });
    const send = async (sql: string, leaveMs: number) => {
      const id = randomUUID();
      const signal = AbortSignal.timeout(leaveMs);
      const headers = { 'x-request-id': id };
      await project.call('POST', '/api/cdp/sql', { body: { sql }, headers, signal }).catch(() => {});
      return entriesOf(service, id);
    };
    const undone = await send(`INSERT INTO slow (a) VALUES ('x'); SELECT pg_sleep(30)`, 300);
    expect(undone).toMatchObject([{ operation: 'sql', outcome: 'client_gone', status: null, project: 'shop' }]);
    expect(await project.rows('SELECT a FROM slow')).toEqual([]);
    // A batch that waits for its table: whether it was cancelled in time or not, the one entry says what happened.
    const id = randomUUID();
    const leaving = new AbortController();
    const lock = await service.engine.control.projects.find('name', 'shop');
    await onServer(
      service.server,
      async (client) => {
        await client.query('BEGIN; LOCK TABLE data.slow');
        const sent = project
          .call('POST', '/api/cdp/data/slow', {
            body: [{ a: 'y' }],
            headers: { 'x-request-id': id },
            signal: leaving.signal,
          })
          .catch(() => {});
        await sleep(300);
        leaving.abort();
        await sent;
        await sleep(300);
        await client.query('COMMIT');
      },
      lock?.placement.database,
    );
    const [entry, ...more] = await entriesOf(service, id);
    expect(more).toEqual([]);
    const stored = (await project.rows('SELECT a FROM slow')).length;
    expect([entry?.outcome, entry?.status, stored]).toEqual(stored === 1 ? ['ok', null, 1] : ['client_gone', null, 0]);
  });

  it('a client leaves during the response: the outcome is ok, as the response that had begun says', async () => {
    const body = { sql: `SELECT repeat('x', 1000000) FROM generate_series(1, 15)` };
    const { response } = await openStream(service, project, 'application/json', body);
    const id = String(response.headers['x-request-id']);
    response.destroy();
    expect(await entriesOf(service, id)).toMatchObject([{ operation: 'sql', outcome: 'ok', rows: '15', status: 200 }]);
  });

  it('several instances write to one log', async () => {
    const second = await startService(service.config, pino({ level: 'silent' }));
    try {
      const ids = Array.from({ length: 40 }, () => randomUUID());
      await Promise.all(
        ids.map((id, i) =>
          call(i % 2 === 0 ? service.url : second.url, 'GET', '/api/cdp/schema', {
            token: project.token,
            headers: { 'x-request-id': id },
          }),
        ),
      );
      await second.engine.audit.flush();
      for (const id of ids) expect(await entriesOf(service, id)).toHaveLength(1);
    } finally {
      await second.close();
    }
  });
});

describe('failures', () => {
  it('are also recorded, with their code and who failed', async () => {
    await project.table('failing', { a: 'INTEGER' });
    const weak = await project.tokenWith('schema:read');
    for (const [method, path, given, expected] of [
      ['POST', '/api/cdp/data/failing', { body: [{ b: 1 }] }, ['insert', 'unknown_column', 400, 'failing']],
      ['POST', '/api/cdp/data/failing', { body: '[{' }, ['insert', 'invalid_json', 400, 'failing']],
      ['POST', '/api/cdp/data/nowhere', { body: [{}] }, ['insert', 'table_not_found', 404, 'nowhere']],
      ['POST', '/api/cdp/sql', { body: { sql: 'SELEC' } }, ['sql', 'sql_error', 400, null]],
      ['POST', '/api/cdp/sql', { body: { sql: 5 } }, ['sql', 'invalid_request', 400, null]],
      ['POST', '/api/cdp/sql', { body: { sql: 'SELECT 1', '': 'x' } }, ['sql', 'invalid_request', 400, null]],
      ['DELETE', '/api/cdp/schema/table/nowhere', {}, ['drop_table', 'table_not_found', 404, 'nowhere']],
      [
        'DELETE',
        '/api/cdp/schema/table/failing',
        { token: weak },
        ['drop_table', 'insufficient_scope', 403, 'failing'],
      ],
    ] as const) {
      const { response, entries } = await audited(method, path, given);
      const [operation, outcome, status, object] = expected;
      expectFailure(response, status, outcome);
      expect(entries).toMatchObject([
        { operation, outcome, status, object, project: 'shop', actor: 'token', rows: null },
      ]);
      expect(entries[0]?.actor_id).toBe(await idOfToken((given as Call).token ?? project.token));
    }
  });

  it('of administrators name the requested project, and no change is recorded that did not happen', async () => {
    const given = { token: admin.token };
    for (const [method, path, body, operation, outcome] of [
      ['POST', '/api/cdp/admin/projects', { name: 'shop' }, 'project.create', 'unique_violation'],
      ['POST', '/api/cdp/admin/projects/nobody/activate', undefined, 'project.activate', 'not_found'],
      ['DELETE', '/api/cdp/admin/projects/shop?confirm=x', undefined, 'project.delete', 'invalid_request'],
      ['DELETE', `/api/cdp/admin/projects/shop/tokens/${randomUUID()}`, undefined, 'token.revoke', 'not_found'],
    ] as const) {
      const { entries } = await audited(method, path, { ...given, body });
      const name = path.includes('nobody') ? 'nobody' : 'shop';
      expect(entries).toMatchObject([{ operation, outcome, project: name, actor: 'admin', actor_name: 'ops' }]);
    }
  });

  it('of unknown callers, and lists that are read again and again, are recorded at once, and then as one entry with a count', async () => {
    const own = await startTestService({}, service.server);
    try {
      const screens = await Promise.all(['one', 'two'].map((name) => own.engine.tokens.create(null, { name })));
      for (const { token } of [...screens, ...screens, ...screens])
        for (const list of ['requests', 'moves', 'servers'])
          expect((await own.call('GET', `/api/cdp/admin/${list}`, { token })).status).toBe(200);
      const wrong = () => own.call('GET', '/api/cdp/schema', { token: `cdp_${'x'.repeat(49)}` });
      for (let i = 0; i < 50; i++) expectFailure(await wrong(), 401, 'unauthorized');
      for (let i = 0; i < 50; i++)
        expectFailure(await own.call('POST', '/api/cdp/sql', { token: null }), 401, 'unauthorized');
      const ofStrangers = async () => (await auditRows(own)).filter(({ actor }) => actor === 'unknown');
      await sleep(50);
      const [first, ...others] = await ofStrangers();
      expect(others).toEqual([]);
      expect(first).toMatchObject({
        operation: 'authentication',
        outcome: 'unauthorized',
        status: 401,
        count: '1',
        project: null,
        actor_id: null,
        address: expect.stringMatching(/127\.0\.0\.1$/) as string,
      });
      // What was counted is written at the end of the interval, or with the service.
      await own.engine.audit.close();
      const rows = await inControl<AuditRow>(own, `SELECT * FROM cdp.audit WHERE actor = 'unknown' ORDER BY at, id`);
      expect(rows.map(({ count }) => count)).toEqual(['1', '99']);
      const lists = await inControl(
        own,
        `SELECT actor_name, operation, array_agg(count::int ORDER BY at, id) AS counts FROM cdp.audit
        WHERE operation LIKE '%.list' GROUP BY 1, 2 ORDER BY 1, 2`,
      );
      const counts = [1, 2];
      expect(lists).toEqual(
        ['one', 'two'].flatMap((actor_name) =>
          ['move.list', 'request.list', 'server.list'].map((operation) => ({ actor_name, operation, counts })),
        ),
      );
    } finally {
      await own.close();
    }
  });

  it('at /metrics are recorded if it requires the admin token', async () => {
    const headers = { 'x-forwarded-for': '192.0.2.1' };
    const { response, entries } = await audited('GET', '/metrics', { headers });
    expectFailure(response, 403, 'insufficient_scope');
    expect(entries).toMatchObject([{ operation: 'metrics', outcome: 'insufficient_scope', project: 'shop' }]);
  });

  it('of unknown paths and methods are not recorded', async () => {
    const before = (await auditRows(service)).length;
    await service.call('GET', '/api/cdp/nope', { token: project.token });
    await service.call('PATCH', '/api/cdp/sql', { token: project.token });
    await service.call('GET', '/healthz');
    await sleep(50);
    expect((await auditRows(service)).length).toBe(before);
  });
});

describe('settings:', () => {
  it('with audit-statements at text, the text is recorded too, as far as Postgres can store it', async () => {
    const own = await startTestService({ 'audit-statements': 'text' }, service.server);
    try {
      const { token } = await own.project();
      for (const [sql, kept] of [
        [`SELECT 'ünï'\n`, `SELECT 'ünï'\n`],
        [`SELECT '\\N', E'\\\\',\t1\r\n\\.\n`, `SELECT '\\N', E'\\\\',\t1\r\n\\.\n`],
        ['SELECT \0', 'SELECT \uFFFD'],
        ['SELECT \uD800', 'SELECT \uFFFD'],
      ] as const) {
        const { entries } = await audited('POST', '/api/cdp/sql', { token, body: { sql } }, own);
        expect(entries).toMatchObject([{ statement: kept, statement_sha256: keyedHash(sql) }]);
      }
    } finally {
      await own.close();
    }
  });

  it('with audit at changes, inserts and reads are not recorded, but refused ones are', async () => {
    const own = await startTestService({ audit: 'changes' }, service.server);
    try {
      const mine = await own.project();
      await mine.table('t', { a: 'TEXT' });
      await mine.call('POST', '/api/cdp/data/t', { body: [{ a: '1' }] });
      await mine.call('POST', '/api/cdp/data/t', { body: [{ b: '1' }] });
      await mine.call('GET', '/api/cdp/schema');
      await mine.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1', read_only: true } });
      await mine.call('POST', '/api/cdp/sql', { body: { sql: 'DELETE FROM t' } });
      const weak = await mine.tokenWith('schema:read');
      await mine.call('POST', '/api/cdp/data/t', { token: weak, body: [{ a: '2' }] });
      await sleep(50);
      const ops = (await own.engine.tokens.create(null)).token;
      const reads = ADMIN_READS.map((url) => url.replace(':project', mine.name).replace(':server', 'default'));
      reads.push(`/api/cdp/admin/projects/${mine.name}/move?to=default`);
      for (const url of reads) expect((await own.call('GET', url, { token: ops })).status, url).toBe(200);
      expectFailure(await own.call('GET', '/api/cdp/admin/moves', { token: mine.token }), 403, 'insufficient_scope');
      await sleep(50);
      expect((await auditRows(own)).map(({ operation, outcome }) => [operation, outcome])).toEqual([
        ['project.create', 'ok'],
        ['token.create', 'ok'],
        ['create_table', 'ok'],
        ['sql', 'ok'],
        ['token.create', 'ok'],
        ['insert', 'insufficient_scope'],
        ['token.create', 'ok'],
        ['move.list', 'insufficient_scope'],
      ]);
    } finally {
      await own.close();
    }
  });

  it('counts as a change what is neither a read nor an insert, for each route', () => {
    // These read, although their method is not GET; receipts are looked up or settled.
    const reads = ['insert', 'track', 'receipts', 'server.check', 'find_subject', 'export_subject'];
    const expected = OPERATIONS.map(({ method, audit: { operation } }) => [
      operation,
      method !== 'GET' && !reads.includes(operation),
    ]);
    expect(OPERATIONS.map(({ audit: { operation, isChange } }) => [operation, isChange])).toEqual(expected);
  });

  it('with audit off, nothing is recorded', async () => {
    const own = await startTestService({ audit: 'off' }, service.server);
    try {
      const mine = await own.project();
      await mine.table('t', { a: 'TEXT' });
      await own.call('GET', '/api/cdp/schema', { token: 'cdp_wrong' });
      await own.engine.projects.setActive(mine.name, false, BY_ITSELF);
      await sleep(50);
      expect(await auditRows(own)).toEqual([]);
    } finally {
      await own.close();
    }
  });
});

/** Reads that need no query, and no move. */
const ADMIN_READS = OPERATIONS.filter(
  ({ access, method, url }) =>
    access === 'admin' && method === 'GET' && !url.endsWith('/:move') && !url.endsWith('/:project/move'),
).map(({ url }) => url);

describe('the admin API', () => {
  const read = (query: string, token = admin.token) => service.call('GET', `/api/cdp/admin/audit?${query}`, { token });
  type Entry = { id: string; time: string; operation: string; outcome: string; project: string; actor_id: string };
  const entries = async (query: string): Promise<Entry[]> => {
    const response = await read(query);
    expect(response.status, response.text).toBe(200);
    return response.body.entries as Entry[];
  };

  it('filters by project, operation, outcome, token and time', async () => {
    const mine = await service.project('filtered');
    await mine.table('t', { a: 'TEXT' });
    expectFailure(await mine.call('DELETE', '/api/cdp/schema/table/nowhere'), 404, 'table_not_found');
    const other = await mine.tokenWith('schema:read');
    await mine.call('GET', '/api/cdp/schema', { token: other });
    await auditRows(service);
    const operations = async (query: string) => (await entries(`project=filtered&${query}`)).map((e) => e.operation);
    expect(await operations('')).toEqual([
      'read_schema',
      'token.create',
      'drop_table',
      'create_table',
      'token.create',
      'project.create',
    ]);
    expect(await operations('operation=drop_table')).toEqual(['drop_table']);
    expectFailure(await mine.call('GET', '/api/cdp/schema/table/nowhere'), 404, 'table_not_found');
    await auditRows(service);
    expect(await operations('changes=true')).toEqual([
      // What failed is of interest even if it would only have read.
      'read_table',
      'token.create',
      'drop_table',
      'create_table',
      'token.create',
      'project.create',
    ]);
    expect(await operations('outcome=failed')).toEqual(['read_table', 'drop_table']);
    expect(await operations('outcome=table_not_found')).toEqual(['read_table', 'drop_table']);
    expect(await operations('outcome=ok&operation=create_table')).toEqual(['create_table']);
    expect(await operations(`token=${await idOfToken(other)}`)).toEqual(['read_schema']);
    const [dropped] = await entries('project=filtered&operation=drop_table');
    expect(await operations(`since=${dropped?.time}`)).not.toContain('project.create');
    expect(await operations(`until=${dropped?.time}`)).not.toContain('drop_table');
    expect(await operations('since=2099-01-01T00:00:00Z')).toEqual([]);
    expect(await entries('project=nobody-at-all')).toEqual([]);
  });

  it('returns everything once, page by page', async () => {
    const all = (await entries('limit=1000&until=2099-01-01T00:00:00Z')).map(({ id }) => id);
    expect(all.length).toBeGreaterThan(20);
    const start = all[0] ?? '';
    const paged: string[] = [];
    for (let before: string | null = start; before !== null;) {
      const { body } = await read(`limit=7&before=${before}`);
      paged.push(...(body.entries as Entry[]).map(({ id }) => id));
      before = body.next as string | null;
    }
    expect(paged).toEqual(all.slice(1));
    expect(new Set(paged).size).toBe(paged.length);
  });

  it.each([
    'limit=0',
    'limit=1001',
    'limit=x',
    'before=x',
    'before=1-2-3',
    'since=yesterday',
    'since=2016-12-31T23:59:60Z',
    'operation=nothing',
    'outcome=%27',
    'token=%00',
    'project=No',
    'nothing=1',
  ])('refuses %s', async (query) => {
    expectFailure(await read(query), 400, 'invalid_request');
  });

  it('describes in words what a parameter accepts', async () => {
    const { message } = expectFailure(await read('limit=0'), 400, 'invalid_request');
    expect(message).toBe('query.limit must be a whole number from 1 to 1000');
  });

  it('is only for administrators', async () => {
    expectFailure(await read('', project.token), 403, 'insufficient_scope');
  });
});

describe('protects:', () => {
  it('no value, token, password or statement of a caller gets into the log', async () => {
    const own = await startTestService({}, service.server);
    try {
      const mine = await own.project();
      const secret = 'a-secret-value-4711';
      await mine.table('t', { a: 'TEXT', b: 'INTEGER' });
      await mine.call('POST', '/api/cdp/data/t', { body: [{ a: secret }] });
      await mine.call('POST', '/api/cdp/data/t', { body: [{ a: secret, b: secret }] });
      await mine.call('POST', '/api/cdp/data/t', { body: [{ [`${secret}-column`]: 1 }] });
      await mine.call('POST', '/api/cdp/sql', { body: { sql: `SELECT '${secret}'` } });
      await mine.call('POST', '/api/cdp/sql', { body: { sql: `SELECT '${secret}'::int` } });
      await mine.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT $1', params: [secret] } });
      await mine.call('GET', `/api/cdp/schema?x=${secret}`);
      const { token } = await own.engine.tokens.create(null);
      await own.call('GET', '/api/cdp/admin/projects', { token });
      const wrong = `cdp_${'q'.repeat(49)}`;
      await own.call('GET', '/api/cdp/schema', { token: wrong });
      const placement = (await own.engine.control.projects.find('name', mine.name))?.placement;
      const everything = JSON.stringify(await auditRows(own));
      const password = new Credentials(own.config.secret ?? '').password(placement?.writer ?? '');
      for (const hidden of [secret, mine.token, token, wrong, password, placement?.writer, placement?.database]) {
        expect(hidden).toBeTruthy();
        expect(everything).not.toContain(hidden);
      }
    } finally {
      await own.close();
    }
  });

  it('names with control characters, or of great length, are harmless in the log', async () => {
    for (const [name, kept] of [
      ['%1B%5B2J', '\uFFFD[2J'],
      ['%00', '\uFFFD'],
      ['a%0Ab', 'a\uFFFDb'],
      ['%E2%80%AEabc', '\uFFFDabc'],
      ['%C2%9B31m', '\uFFFD31m'],
      [`'%3B%20DROP%20TABLE%20cdp.audit%3B--`, `'; DROP TABLE cdp.audit;--`],
      ['%7Ba,NULL,%22%5C%22%7D', '{a,NULL,"\\"}'],
      ['x'.repeat(10_000), 'x'.repeat(200)],
    ] as const) {
      const { entries } = await audited('GET', `/api/cdp/schema/table/${name}`);
      expect(entries).toMatchObject([{ operation: 'read_table', object: kept, outcome: 'table_not_found' }]);
    }
  });

  it('an invalid X-Request-Id does not get into the log', async () => {
    const id = `x'; DROP TABLE cdp.audit --`;
    await project.call('GET', '/api/cdp/schema', { headers: { 'x-request-id': id } });
    await sleep(50);
    expect((await auditRows(service)).map((row) => row.request_id)).not.toContain(id);
  });

  it('a change of a project or token whose entry cannot be written does not happen', async () => {
    const own = await startTestService({}, service.server);
    try {
      const mine = await own.project();
      const { token: adminToken } = await own.engine.tokens.create(null);
      const [token] = await inControl<{ id: string }>(own, 'SELECT id FROM cdp.tokens WHERE project_id = $1', [
        mine.id,
      ]);
      await inControl(own, `ALTER TABLE cdp.audit ADD CHECK (operation NOT LIKE '%.%') NOT VALID`);
      const send = (method: string, path: string, body?: unknown) =>
        own.call(method, `/api/cdp/admin/projects${path}`, { token: adminToken, body });
      for (const response of [
        await send('POST', `/${mine.name}/deactivate`),
        await send('DELETE', `/${mine.name}?confirm=${mine.name}`),
        await send('POST', `/${mine.name}/tokens`, {}),
        await send('DELETE', `/${mine.name}/tokens/${token?.id}`),
        await send('POST', '', { name: 'never-made' }),
      ]) {
        expectFailure(response, 503, 'database_unavailable');
      }
      expect((await own.engine.projects.list()).map(({ name, status }) => [name, status])).toEqual([
        [mine.name, 'active'],
      ]);
      expect((await own.engine.tokens.list(mine.id)).map(({ revokedAt }) => revokedAt)).toEqual([null]);
      expect((await mine.call('GET', '/api/cdp/schema')).status).toBe(200);
    } finally {
      await own.close();
    }
  });

  it("an entry can be neither changed nor deleted, even by the server's superuser", async () => {
    const before = await auditRows(service);
    for (const text of [
      `UPDATE cdp.audit SET outcome = 'ok'`,
      'UPDATE cdp.audit SET outcome = outcome WHERE false',
      'DELETE FROM cdp.audit',
      'TRUNCATE cdp.audit',
      `BEGIN; SET LOCAL cdp.audit_remove_before = '2099-01-01'; DELETE FROM cdp.audit; COMMIT`,
      `SET session_replication_role = replica; DELETE FROM cdp.audit`,
      `INSERT INTO cdp.audit SELECT * FROM cdp.audit ON CONFLICT (at, id) DO UPDATE SET outcome = 'ok'`,
    ]) {
      await expect(inControl(service, text)).rejects.toThrow('cdp.audit is append-only');
    }
    expect((await auditRows(service)).slice(0, before.length)).toEqual(before);
  });

  it('entries older than audit-days are removed over time, and nothing else', async () => {
    const own = await startTestService({ 'audit-days': '30' }, service.server);
    try {
      await inControl(
        own,
        `INSERT INTO cdp.audit (at, id, actor, operation, outcome)
         SELECT now() - make_interval(days => d), d * 10000 + n, 'service', 'repair', 'ok'
         FROM unnest(ARRAY[29, 31, 400]) d, generate_series(1, 6000) n`,
      );
      // An instance whose clock is ahead removes no more.
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 85 * 86_400_000 });
      const removed = await own.engine.audit.removeOld().finally(() => vi.useRealTimers());
      expect(removed).toBe(12_000);
      const [left] = await inControl<{ count: string; oldest: number }>(
        own,
        `SELECT count(*), extract(day FROM now() - min(at))::int AS oldest FROM cdp.audit WHERE operation = 'repair'`,
      );
      expect(left).toEqual({ count: '6000', oldest: 29 });
    } finally {
      await own.close();
    }
  });

  it('a project cannot reach the control database, neither by its SQL nor with the passwords of its roles', async () => {
    for (const sql of [
      'SELECT * FROM cdp.audit',
      `SELECT * FROM ${service.database}.cdp.audit`,
      'DELETE FROM cdp.audit',
      'CREATE EXTENSION dblink',
      'CREATE EXTENSION postgres_fdw',
    ]) {
      expect((await project.call('POST', '/api/cdp/sql', { body: { sql } })).status).toBeGreaterThanOrEqual(400);
    }
    const credentials = new Credentials(service.config.secret ?? '');
    const placement = (await service.engine.control.projects.find('name', 'shop'))?.placement;
    for (const user of [placement?.writer ?? '', placement?.reader ?? '']) {
      const login = { ...service.server.connection, user, password: credentials.password(user) };
      const own = new pg.Client({ ...login, database: placement?.database ?? '' });
      await own.connect();
      await own.end();
      const client = new pg.Client({ ...login, database: service.database });
      await expect(client.connect()).rejects.toThrow('permission denied for database');
    }
  });
});

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  it('writes, reads and protects entries, and removes old ones', async () => {
    const own = await startTestService({ 'audit-days': '1' }, server);
    try {
      const mine = await own.project();
      await mine.table('t', { a: 'TEXT' });
      await own.engine.projects.setActive(mine.name, false, BY_ITSELF);
      const rows = await auditRows(own);
      expect(rows.map(({ operation }) => operation)).toEqual([
        'project.create',
        'token.create',
        'create_table',
        'project.deactivate',
      ]);
      await expect(inControl(own, 'DELETE FROM cdp.audit')).rejects.toThrow('cdp.audit is append-only');
      await inControl(
        own,
        `INSERT INTO cdp.audit (at, id, actor, operation, outcome) VALUES (now() - interval '2 days', 1, 'service', 'repair', 'ok')`,
      );
      expect(await own.engine.audit.removeOld()).toBe(1);
      expect(await own.engine.audit.read({ limit: 10 })).toHaveLength(4);
    } finally {
      await own.close();
    }
  });
});
