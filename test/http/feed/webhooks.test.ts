/** Webhooks: changes of a project are sent to endpoints, in order, signed, at least once. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Webhook as Verifier } from 'standardwebhooks';
import { answered, type Answer, type Endpoint, startEndpoint } from '../../support/endpoint.js';
import { expectFailure, onServer, startOwnService, type TestProject, type TestService } from '../../support/service.js';

const TEN_MINUTES = 600_000;

interface Webhook {
  id: string;
  url: string;
  status: string;
  reason: string | null;
  cursor: string;
  attempts: number;
  error: string | null;
  [field: string]: unknown;
}

describe('webhooks', () => {
  let service: TestService;
  let project: TestProject;
  const endpoints: Endpoint[] = [];
  const made: string[] = [];

  beforeAll(async () => {
    service = await startOwnService({ 'webhook-networks': '127.0.0.0/8' });
    project = await service.project();
    await project.table('customers', { email: 'TEXT', score: 'INTEGER' });
    await project.table('orders', { total: 'INTEGER' });
    const on = await project.call('PUT', '/api/cdp/feed', { body: {} });
    expect(on.text).toContain('"success":true');
    project = await project.seenAnew();
  }, TEN_MINUTES);
  afterEach(async () => {
    for (const id of made.splice(0)) await project.call('DELETE', `/api/cdp/webhooks/${id}`);
    for (const endpoint of endpoints.splice(0)) await endpoint.close();
  });
  afterAll(() => service.close());

  const endpoint = async (answer?: Answer): Promise<Endpoint> => {
    const started = await startEndpoint(answer);
    endpoints.push(started);
    return started;
  };
  const create = async (body: object): Promise<{ webhook: Webhook; secret: string }> => {
    const response = await project.call('POST', '/api/cdp/webhooks', { body });
    expect(response.text).toMatch(/^\{"success":true/);
    expect(response.status).toBe(201);
    const created = response.body as unknown as { webhook: Webhook; secret: string };
    made.push(created.webhook.id);
    return created;
  };
  const change = async (id: string, body: object): Promise<Webhook> => {
    const response = await project.call('PUT', `/api/cdp/webhooks/${id}`, { body });
    expect(response.text).toMatch(/^\{"success":true/);
    return response.body.webhook as Webhook;
  };
  const shown = async (id: string): Promise<Webhook> =>
    (await project.call('GET', `/api/cdp/webhooks/${id}`)).body.webhook as Webhook;
  const insert = (...emails: string[]) =>
    project.rows(`INSERT INTO customers (email) SELECT unnest($1::text[])`, [emails]);
  const emails = (of: Endpoint) => of.changes().map(({ record }) => (record as { email?: string } | null)?.email);
  const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 30_000, interval: 50 });
  const control = (sql: string, params: unknown[] = []) =>
    onServer(service.server, async (client) => (await client.query<Record<string, unknown>>(sql, params)).rows);
  /** The next attempt is now. */
  const retryNow = async (id: string) => {
    await control('UPDATE cdp.webhooks SET retry_at = now() WHERE id = $1', [id]);
    await change(id, { active: true });
  };

  describe('work', () => {
    it('send changes in order, with signatures that standardwebhooks verifies', async () => {
      const target = await endpoint();
      const { webhook, secret } = await create({ url: target.url });
      expect(webhook).toMatchObject({ tables: 'all', columns: 'all', status: 'active', reads_as: 'writer' });
      await insert('a', 'b');
      await project.rows("UPDATE customers SET score = 1 WHERE email = 'a'");
      await project.rows("DELETE FROM customers WHERE email = 'b'");
      await eventually(() =>
        expect(target.changes().map(({ op }) => op)).toEqual(['insert', 'insert', 'update', 'delete']),
      );
      for (const { headers, text, body } of target.received) {
        expect(new Verifier(secret).verify(text, headers)).toEqual(body);
        expect(body).toMatchObject({ type: 'changes', project: project.name, webhook: webhook.id });
        expect(headers['webhook-id']).toBe(body.changes.at(-1)?.cursor);
        expect(body.cursor).toBe(headers['webhook-id']);
        expect(() => new Verifier(secret).verify(`${text} `, headers)).toThrow();
      }
      const last = target.received.at(-1)?.body.cursor;
      await eventually(async () => expect(await shown(webhook.id)).toMatchObject({ cursor: last, status: 'active' }));
      const read = await project.call('GET', `/api/cdp/changes?after=${webhook.cursor}`);
      expect(target.changes()).toEqual(read.body.changes);
      const { deliveries } = (await project.call('GET', `/api/cdp/webhooks/${webhook.id}/deliveries`)).body as {
        deliveries: Record<string, unknown>[];
      };
      expect(deliveries[0]).toMatchObject({ message_id: last, attempt: 1, status: 204, error: null });
      expect(deliveries.reduce((sum, { changes }) => sum + Number(changes), 0)).toBe(4);
    });

    it('send only the tables, kinds and columns that are asked for', async () => {
      const target = await endpoint();
      await create({ url: target.url, tables: ['customers'], ops: ['insert', 'delete'], columns: ['score'] });
      await project.rows('INSERT INTO orders (total) VALUES (1)');
      const [row] = await project.rows("INSERT INTO customers (email, score) VALUES ('n', 7) RETURNING id");
      await project.rows("UPDATE customers SET score = 8 WHERE email = 'n'");
      await project.rows("DELETE FROM customers WHERE email = 'n'");
      await eventually(() => expect(target.changes()).toHaveLength(2));
      const id = row?.id;
      expect(target.changes()).toMatchObject([
        { op: 'insert', key: { id }, record: { id, score: 7 } },
        { op: 'delete', key: { id } },
      ]);
      expect(target.changes()[0]?.record).not.toHaveProperty('email');
    });

    it('split what is much into deliveries of at most 100 changes and 512 KiB', async () => {
      const target = await endpoint();
      await create({ url: target.url });
      await project.rows("INSERT INTO customers (score, email) SELECT n, 'many' FROM generate_series(1, 250) n");
      await eventually(() => expect(target.changes()).toHaveLength(250));
      expect(target.received.every(({ body }) => body.changes.length <= 100)).toBe(true);
      expect(target.changes().map(({ record }) => (record as { score: number }).score)).toEqual(
        Array.from({ length: 250 }, (_, i) => i + 1),
      );
      await project.rows("INSERT INTO customers (email) SELECT repeat('x', 200000) FROM generate_series(1, 5)");
      await eventually(() => expect(target.changes()).toHaveLength(255));
      expect(target.received.every(({ text }) => text.length < 520 * 1024)).toBe(true);
    });

    it('start from a cursor, and go on where they were after a pause', async () => {
      const target = await endpoint();
      const { cursor } = (await project.call('GET', '/api/cdp/changes')).body as { cursor: string };
      await insert('before');
      const { webhook } = await create({ url: target.url, from: cursor });
      await eventually(() => expect(emails(target)).toEqual(['before']));
      expect(await change(webhook.id, { active: false })).toMatchObject({ status: 'paused', reason: null });
      await insert('during');
      await insert('after');
      expect(emails(target)).toEqual(['before']);
      expect(await change(webhook.id, { active: true })).toMatchObject({ status: 'active' });
      await eventually(() => expect(emails(target)).toEqual(['before', 'during', 'after']));
    });

    it('replay from a cursor', async () => {
      const target = await endpoint();
      const { webhook } = await create({ url: target.url });
      await insert('once', 'twice');
      await eventually(() => expect(target.changes()).toHaveLength(2));
      const first = target.changes()[0]?.cursor;
      const replayed = await project.call('POST', `/api/cdp/webhooks/${webhook.id}/replay`, { body: { from: first } });
      expect(replayed.body.webhook).toMatchObject({ cursor: first, status: 'active' });
      await eventually(() => expect(emails(target)).toEqual(['once', 'twice', 'twice']));
    });

    it('sign with both secrets during a rotation', async () => {
      const target = await endpoint();
      const { webhook, secret } = await create({ url: target.url });
      const rotated = await project.call('POST', `/api/cdp/webhooks/${webhook.id}/secret`, { body: {} });
      const newer = rotated.body.secret as string;
      expect(rotated.body.webhook).toMatchObject({ previous_secret_until: expect.any(String) as string });
      await insert('rotated');
      await eventually(() => expect(target.received).toHaveLength(1));
      const [{ text, headers } = { text: '', headers: {} }] = target.received;
      expect(new Verifier(secret).verify(text, headers)).toEqual(new Verifier(newer).verify(text, headers));
      await project.call('POST', `/api/cdp/webhooks/${webhook.id}/secret`, { body: { previous_hours: 0 } });
      await insert('again');
      await eventually(() => expect(target.received).toHaveLength(2));
      const last = target.received[1];
      expect(() => new Verifier(newer).verify(last?.text ?? '', last?.headers ?? {})).toThrow();
    });

    it('are in the audit log, with each change in its own transaction', async () => {
      const { url } = await endpoint();
      const { webhook } = await create({ url });
      const path = `/api/cdp/webhooks/${webhook.id}`;
      await project.call('PUT', path, { body: { active: false } });
      await project.call('POST', `${path}/secret`, { body: {} });
      await project.call('POST', `${path}/replay`, { body: { from: webhook.cursor } });
      await project.call('POST', `${path}/test`);
      await project.call('DELETE', path);
      const words = ['create', 'change', 'replay', 'test', 'delete'].map((word) => `${word}_webhook`);
      await eventually(async () => {
        const rows = await control(
          `SELECT operation, outcome, status FROM cdp.audit WHERE project = $1 ORDER BY at DESC LIMIT 20`,
          [project.name],
        );
        for (const operation of [...words, 'rotate_webhook_secret'])
          expect(rows).toContainEqual({ operation, outcome: 'ok', status: operation === 'create_webhook' ? 201 : 200 });
      });
    });

    it('leave a stopped server alone, and go on when it runs again', async () => {
      const idle = await startOwnService({ 'webhook-networks': '127.0.0.1', 'idle-stop-ms': '1000' });
      try {
        const still = await idle.project();
        await still.table('customers', { email: 'TEXT' });
        await still.call('PUT', '/api/cdp/feed', { body: {} });
        const seen = await still.seenAnew();
        const target = await endpoint();
        for (let i = 0; i < 3; i++)
          expect((await seen.call('POST', '/api/cdp/webhooks', { body: { url: target.url } })).status).toBe(201);
        await seen.rows("INSERT INTO customers (email) VALUES ('a')");
        await eventually(() => expect(target.changes()).toHaveLength(3));
        await vi.waitFor(() => expect(idle.engine.load.runningServers).toBe(0), { timeout: 120_000, interval: 100 });
        await seen.rows("INSERT INTO customers (email) VALUES ('b')");
        await eventually(() => expect(target.changes()).toHaveLength(6));
      } finally {
        await idle.close();
      }
    });

    it('send a test, and tell its outcome', async () => {
      const target = await endpoint();
      const { webhook, secret } = await create({ url: target.url });
      const test = await project.call('POST', `/api/cdp/webhooks/${webhook.id}/test`);
      expect(test.body.test).toMatchObject({ delivered: true, status: 204, error: null });
      const [{ text, headers } = { text: '', headers: {} }] = target.received;
      expect(new Verifier(secret).verify(text, headers)).toEqual({
        type: 'test',
        project: project.name,
        webhook: webhook.id,
      });
      target.answer = answered(500);
      const failed = await project.call('POST', `/api/cdp/webhooks/${webhook.id}/test`);
      expect(failed.body.test).toMatchObject({ delivered: false, status: 500, error: 'the answer was 500' });
      await endpoints.pop()?.close();
      const gone = await project.call('POST', `/api/cdp/webhooks/${webhook.id}/test`);
      expect(gone.body.test).toMatchObject({ delivered: false, status: null });
      expect((gone.body.test as { error: string }).error).toContain('ECONNREFUSED');
    });

    it('send the same delivery again until it is confirmed, and keep the order', async () => {
      const target = await endpoint(answered(503));
      const { webhook } = await create({ url: target.url });
      await insert('first');
      await eventually(async () => expect(await shown(webhook.id)).toMatchObject({ status: 'failing', attempts: 1 }));
      expect(await shown(webhook.id)).toMatchObject({ error: 'the answer was 503', cursor: webhook.cursor });
      await insert('second');
      target.answer = answered(200);
      // By itself, after some seconds.
      await eventually(() => expect(emails(target)).toEqual(['first', 'first', 'second']));
      expect(target.received[1]?.headers['webhook-id']).toBe(target.received[0]?.headers['webhook-id']);
      await eventually(async () =>
        expect(await shown(webhook.id)).toMatchObject({ status: 'active', attempts: 0, error: null }),
      );
      const { deliveries } = (await project.call('GET', `/api/cdp/webhooks/${webhook.id}/deliveries`)).body as {
        deliveries: unknown[];
      };
      expect(deliveries).toMatchObject([
        { attempt: 1, status: 200 },
        { attempt: 2, status: 200 },
        { attempt: 1, status: 503, error: 'the answer was 503' },
      ]);
    });
  });

  describe('pause', () => {
    it('at 410', async () => {
      const target = await endpoint(answered(410));
      const { webhook } = await create({ url: target.url });
      await insert('unwanted');
      await eventually(async () => expect(await shown(webhook.id)).toMatchObject({ status: 'paused' }));
      expect((await shown(webhook.id)).reason).toContain('410');
      expect(service.engine.webhooks.load.get('stopped')).toBe(1);
      target.answer = answered(200);
      await change(webhook.id, { active: true });
      await eventually(() => expect(emails(target)).toEqual(['unwanted', 'unwanted']));
      expect(service.engine.webhooks.load.get('stopped')).toBe(0);
    });

    it('after three days without a confirmation, and lose nothing', async () => {
      const target = await endpoint(answered(500));
      const { webhook } = await create({ url: target.url });
      await insert('kept');
      await eventually(async () => expect(await shown(webhook.id)).toMatchObject({ status: 'failing' }));
      await control(`UPDATE cdp.webhooks SET failing_since = now() - interval '73 hours' WHERE id = $1`, [webhook.id]);
      await eventually(async () => expect(await shown(webhook.id)).toMatchObject({ status: 'paused' }));
      expect((await shown(webhook.id)).reason).toMatch(/three days.*the answer was 500/);
      target.answer = answered(200);
      await change(webhook.id, { active: true });
      await eventually(() => expect(emails(target).at(-1)).toBe('kept'));
    });

    it('when the feed no longer has their changes, saying how to go on', async () => {
      const target = await endpoint();
      const { webhook } = await create({ url: target.url });
      await change(webhook.id, { active: false });
      await control('UPDATE cdp.webhooks SET cursor = $2 WHERE id = $1', [webhook.id, '00000000.1.0']);
      await change(webhook.id, { active: true });
      await eventually(async () => expect(await shown(webhook.id)).toMatchObject({ status: 'paused' }));
      const { reason } = await shown(webhook.id);
      expect(reason).toMatch(/former feed.*replay/);
      const feed = (await project.call('GET', '/api/cdp/feed')).body.feed as { start: string };
      expect(reason).toContain(feed.start);
      const replayed = await project.call('POST', `/api/cdp/webhooks/${webhook.id}/replay`, {
        body: { from: feed.start },
      });
      expect(replayed.body.webhook).toMatchObject({ status: 'active' });
      await eventually(() => expect(target.changes().length).toBeGreaterThan(0));
    });
  });

  describe('refuse', () => {
    const rows = () => control('SELECT id FROM cdp.webhooks');

    it.each([
      ['ftp://example.com/x', 'must be an https URL'],
      ['example.com', 'must be an https URL'],
      ['javascript:alert(1)', 'must be an https URL'],
      ['https://user:password@example.com/', 'must not contain a user or password'],
      ['https://user@example.com/', 'must not contain a user or password'],
      ['https://example.com/#part', 'must not contain a fragment'],
      ['https://10.0.0.1/', 'no public address'],
      ['https://192.168.1.1/', 'no public address'],
      ['https://169.254.169.254/latest/meta-data/', 'no public address'],
      ['https://168.63.129.16/', 'no public address'],
      ['https://100.100.100.200/', 'no public address'],
      ['https://224.0.0.1/', 'no public address'],
      ['https://0.0.0.0/', 'no public address'],
      ['https://255.255.255.255/', 'no public address'],
      ['https://[::1]/', 'no public address'],
      ['https://[::ffff:10.0.0.1]/', 'no public address'],
      ['https://[::ffff:a9fe:a9fe]/', 'no public address'],
      ['https://[64:ff9b::a9fe:a9fe]/', 'no public address'],
      ['https://[64:ff9b:1::a00:1]/', 'no public address'],
      ['https://[2002:a00:1::]/', 'no public address'],
      ['https://[::a00:1]/', 'no public address'],
      ['https://[fd00:ec2::254]/', 'no public address'],
      ['https://[fe80::1]/', 'no public address'],
      ['https://[ff02::1]/', 'no public address'],
      ['https://2852039166/', 'no public address'],
      ['https://0xa9fea9fe/', 'no public address'],
      ['https://0251.0376.0251.0376/', 'no public address'],
      ['http://93.184.216.34/', 'for http'],
    ])('the URL %s', async (url, why) => {
      const error = expectFailure(
        await project.call('POST', '/api/cdp/webhooks', { body: { url } }),
        400,
        'invalid_request',
      );
      expect(error.message).toContain(why);
      expect(await rows()).toEqual([]);
    });

    it('wrong bodies, naming each place', async () => {
      const body = { url: 1, tables: [], ops: ['upsert'], columns: 'none', from: 'x', colour: 'red' };
      const error = expectFailure(await project.call('POST', '/api/cdp/webhooks', { body }), 400, 'invalid_request');
      for (const field of ['url', 'tables', 'ops', 'columns', 'from', 'colour'])
        expect(JSON.stringify(error)).toContain(field);
      expect(await rows()).toEqual([]);
      expectFailure(await project.call('POST', '/api/cdp/webhooks', { body: {} }), 400, 'invalid_request');
    });

    it('cursors of other feeds and in the future', async () => {
      const { url } = await endpoint();
      const { cursor } = (await project.call('GET', '/api/cdp/changes')).body as { cursor: string };
      const [epoch = ''] = cursor.split('.');
      const call = (from: string) => project.call('POST', '/api/cdp/webhooks', { body: { url, from } });
      expectFailure(await call('00000000.1.0'), 410, 'cursor_expired');
      expectFailure(await call(`${epoch}.ffffffffffffffff.0`), 400, 'invalid_request');
      expect(await rows()).toEqual([]);
      const { webhook } = await create({ url });
      const replay = (from: string) =>
        project.call('POST', `/api/cdp/webhooks/${webhook.id}/replay`, { body: { from } });
      expectFailure(await replay('00000000.1.0'), 410, 'cursor_expired');
      expectFailure(await replay(`${epoch}.ffffffffffffffff.0`), 400, 'invalid_request');
      expect(await shown(webhook.id)).toMatchObject({ cursor: webhook.cursor, status: 'active' });
    });

    it('callers without the rights: scopes, roles, other projects', async () => {
      const { url } = await endpoint();
      const call = (method: string, path: string, token: string, body?: object) =>
        project.call(method, `/api/cdp/webhooks${path}`, { token, ...(body === undefined ? {} : { body }) });
      const changer = await project.tokenWith('schema:write');
      const lister = await project.tokenWith('schema:read');
      expectFailure(await call('POST', '', changer, { url }), 403, 'insufficient_scope');
      expectFailure(await call('POST', '', lister, { url }), 403, 'insufficient_scope');
      await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
      const acting = await project.tokenAs('intern', 'schema:write', 'schema:read', 'sql:read');
      expectFailure(await call('POST', '', acting, { url }), 403, 'insufficient_scope');
      expect(await rows()).toEqual([]);
      const { webhook, secret } = await create({ url });
      const path = `/${webhook.id}`;
      expectFailure(await call('PUT', path, changer, { url: 'https://example.com/' }), 403, 'insufficient_scope');
      expect((await call('PUT', path, changer, { active: false })).status).toBe(200);
      for (const [method, at, body] of [
        ['PUT', path, { active: true }],
        ['POST', `${path}/secret`, {}],
        ['POST', `${path}/replay`, { from: webhook.cursor }],
        ['POST', `${path}/test`, undefined],
        ['DELETE', path, undefined],
      ] as const) {
        expectFailure(await call(method, at, lister, body), 403, 'insufficient_scope');
        expectFailure(await call(method, at, acting, body), 403, 'insufficient_scope');
      }
      for (const at of ['', path, `${path}/deliveries`])
        expectFailure(await call('GET', at, acting), 403, 'insufficient_scope');
      const listed = await call('GET', '', lister);
      expect(listed.body.webhooks).toMatchObject([{ id: webhook.id, status: 'paused' }]);
      expect(listed.text).not.toContain(secret.slice('whsec_'.length));
      const other = await service.project();
      for (const [method, at, body] of [
        ['GET', path, undefined],
        ['GET', `${path}/deliveries`, undefined],
        ['PUT', path, { active: true }],
        ['POST', `${path}/secret`, {}],
        ['POST', `${path}/replay`, { from: webhook.cursor }],
        ['POST', `${path}/test`, undefined],
        ['DELETE', path, undefined],
      ] as const)
        expectFailure(await call(method, at, other.token, body), 404, 'not_found');
      expectFailure(await other.call('POST', '/api/cdp/webhooks', { body: { url } }), 404, 'not_found');
      expectFailure(await call('GET', '/no-uuid', lister), 404, 'not_found');
      expect(await shown(webhook.id)).toMatchObject({ status: 'paused', url });
    });

    it('more than 50', async () => {
      const { url } = await endpoint();
      for (let i = 0; i < 50; i++) await create({ url });
      const error = expectFailure(
        await project.call('POST', '/api/cdp/webhooks', { body: { url } }),
        400,
        'invalid_request',
      );
      expect(error.message).toContain('50');
      expect(await rows()).toHaveLength(50);
    });
  });

  describe('protect', () => {
    it('the secret: it is sealed at rest, and readable nowhere', async () => {
      const { url } = await endpoint();
      const { webhook, secret } = await create({ url });
      const [row] = await control('SELECT to_jsonb(w)::text AS text FROM cdp.webhooks w');
      expect(row?.text).not.toContain(secret.slice(6, 30));
      const audit = await control('SELECT to_jsonb(a)::text AS text FROM cdp.audit a');
      expect(JSON.stringify(audit)).not.toContain(secret.slice(6, 30));
      expect((await project.call('GET', `/api/cdp/webhooks/${webhook.id}`)).text).not.toContain('secret":"');
    });

    it('what a reader may not see, also after the rights change', async () => {
      const target = await endpoint();
      const token = await project.tokenWith('schema:write', 'sql:read');
      await project.rows('CREATE TABLE hidden (id int PRIMARY KEY, a text)');
      await project.rows(
        `REVOKE SELECT ON hidden FROM PUBLIC, ${(await service.engine.projects.get(project.name)).placement.reader}`,
      );
      const response = await project.call('POST', '/api/cdp/webhooks', { body: { url: target.url }, token });
      const { webhook } = response.body as unknown as { webhook: Webhook };
      made.push(webhook.id);
      expect(webhook).toMatchObject({ reads_as: 'reader' });
      await project.rows("INSERT INTO hidden VALUES (1, 'secret')");
      await insert('seen');
      await eventually(() => expect(emails(target)).toContain('seen'));
      expect(JSON.stringify(target.received)).not.toContain('hidden');
      expect(await change(webhook.id, { columns: 'all' })).toMatchObject({ reads_as: 'writer' });
      await project.rows('DROP TABLE hidden');
    });

    it('other endpoints from those that hang, answer without end, redirect, or drop the connection', async () => {
      const redirected = await endpoint();
      const good = await endpoint();
      const bad = await Promise.all([
        endpoint(() => {}),
        endpoint((_request, response) => {
          response.writeHead(200);
          const write = () => {
            while (!response.destroyed && response.write(Buffer.alloc(65_536)));
          };
          response.on('drain', write);
          write();
        }),
        endpoint(answered(307, { location: redirected.url })),
        endpoint(answered(302, { location: 'http://169.254.169.254/latest/meta-data/' })),
        endpoint((request) => request.socket.destroy()),
        endpoint((_request, response) => void response.socket?.end('not HTTP')),
        endpoint((_request, response) => void response.writeHead(200).flushHeaders()),
      ]);
      const ids: string[] = [];
      for (const { url } of bad) ids.push((await create({ url })).webhook.id);
      await create({ url: good.url });
      const numbers = Array.from({ length: 20 }, (_, i) => `n${i}`);
      const startedAt = performance.now();
      for (const email of numbers) {
        await insert(email);
        await eventually(() => expect(emails(good).at(-1)).toBe(email));
      }
      // One that hangs takes 10 s.
      expect(performance.now() - startedAt).toBeLessThan(9_000);
      expect(emails(good)).toEqual(numbers);
      const [hangs = '', endless = '', redirects = '', , drops = ''] = ids;
      await eventually(async () => expect((await shown(hangs)).error).toBe('no answer within 10 s'));
      await eventually(async () => expect((await shown(redirects)).error).toBe('307: redirects are not followed'));
      await eventually(async () => expect((await shown(drops)).error).toContain('socket hang up'));
      // Its head confirmed it, and the rest was not read.
      await eventually(async () => expect((await shown(endless)).delivered_at).not.toBeNull());
      expect(redirected.received).toEqual([]);
    });

    it('its own sessions: a webhook that waits lets go of everything when it is deleted', async () => {
      const target = await endpoint(() => {});
      const { webhook } = await create({ url: target.url });
      await insert('hangs');
      await eventually(() => expect(target.received).toHaveLength(1));
      const deleted = await project.call('DELETE', `/api/cdp/webhooks/${webhook.id}`);
      expect(deleted.body).toMatchObject({ success: true, id: webhook.id });
      expectFailure(await project.call('GET', `/api/cdp/webhooks/${webhook.id}`), 404, 'not_found');
      expect(await control('SELECT FROM cdp.webhook_deliveries WHERE webhook_id = $1', [webhook.id])).toEqual([]);
      expect([...service.engine.webhooks.load.values()]).toEqual([0, 0, 0]);
    });

    it('the control database from many attempts: the last 100 are kept', async () => {
      const target = await endpoint();
      const { webhook } = await create({ url: target.url });
      for (let i = 0; i < 105; i++) {
        await insert(`d${i}`);
        await eventually(() => expect(target.received).toHaveLength(i + 1));
      }
      await eventually(async () => {
        const { deliveries } = (await project.call('GET', `/api/cdp/webhooks/${webhook.id}/deliveries`)).body as {
          deliveries: { message_id: string }[];
        };
        expect(deliveries).toHaveLength(100);
        expect(deliveries[0]?.message_id).toBe(target.received.at(-1)?.body.cursor);
      });
    });

    it('a change in between: what was sent before it confirms nothing', async () => {
      let release = (): void => {};
      const target = await endpoint((_request, response) => (release = () => void response.writeHead(200).end()));
      const { webhook } = await create({ url: target.url });
      await insert('one', 'two');
      await eventually(() => expect(target.received.length).toBeGreaterThan(0));
      await project.call('POST', `/api/cdp/webhooks/${webhook.id}/replay`, { body: { from: webhook.cursor } });
      release();
      target.answer = answered(200);
      await eventually(async () => expect((await shown(webhook.id)).cursor).toBe(target.changes().at(-1)?.cursor));
      expect(emails(target).slice(-2)).toEqual(['one', 'two']);
      await retryNow(webhook.id);
    });
  });
});
