/** People in a project: declaring where they are, finding them, handing over, and erasing them. */
import { createHmac } from 'node:crypto';
import { compactVerify, createLocalJWKSet, decodeProtectedHeader, importJWK, type JWK } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { committedText } from '../../../src/contract/subjects.js';
import type {
  Declaration,
  DeclaredTable,
  ErasureOutcome,
  ReceiptPayload,
  Upkeep,
} from '../../../src/contract/wire/subjects.js';
import {
  ADA,
  BOB,
  declare,
  erase,
  erased,
  numbersIn,
  PEOPLE,
  WITH_BOTH,
  WITHOUT_ADA,
  withPeople,
} from '../../support/people.js';
import { testServers } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

/** PEOPLE with other tables. */
const people = (tables: Record<string, DeclaredTable>, more: object = {}): Declaration => ({
  person: { ...PEOPLE.person, tables: { ...PEOPLE.person?.tables, ...tables }, ...more } as Declaration[string],
});

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({}, server);
  });
  afterAll(() => service.close());

  const shop = async (): Promise<TestProject> => withPeople(await service.project());
  const post = (project: TestProject, what: string, body: object = ADA) =>
    project.call('POST', `/api/cdp/subjects/${what}`, { body });

  describe('works', () => {
    it('finds a person by links, whatever the case, and hands everything over', async () => {
      const project = await shop();
      const found = await post(project, 'find');
      expect(found.text).toMatch(/^\{"success":true/);
      expect(found.body).toMatchObject({
        message: '4 rows in 3 tables',
        identifiers: { email: ['ada@example.com'], customer_no: ['1001'] },
        joined: [],
        places: [
          { place: 'quarantine', count: 0 },
          { place: 'idempotency keys', count: 0 },
          { place: 'segments', count: 0 },
        ],
      });
      const exported = await post(project, 'export');
      const lines = exported.text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines).toHaveLength(5);
      expect(lines.at(-1)).toMatchObject({ manifest: { tables: { customers: 1, events: 2, orders: 1 }, rows: 4 } });
      expect(lines).toContainEqual({
        table: 'customers',
        row: { no: 1001, email: ' ada@example.com', city: 'London' },
      });
      // A reader may do both.
      const reader = await project.tokenWith('sql:read');
      for (const what of ['find', 'export'])
        expect((await project.call('POST', `/api/cdp/subjects/${what}`, { body: ADA, token: reader })).status).toBe(
          200,
        );
    });

    it('erases in one transaction, after a rehearsal that changes nothing', async () => {
      const project = await shop();
      const rehearsed = await erase(project, ADA, '?dry_run=true');
      const result = {
        tables: [
          { table: 'events', deleted: 2, changed: 0 },
          { table: 'orders', deleted: 0, changed: 1 },
          { table: 'customers', deleted: 1, changed: 0 },
        ],
        others: [],
        rounds: 1,
      };
      expect(rehearsed.body.result, rehearsed.text).toMatchObject({ ...result, transaction: null });
      expect(await numbersIn(project)).toEqual(WITH_BOTH);
      const token = await project.tokenWith('subjects:erase');
      expect((await project.call('GET', '/api/cdp/subjects/erasures', { token })).body.erasures).toEqual([]);

      const response = await erase(project);
      expect(response.status, response.text).toBe(200);
      expect(await numbersIn(project)).toEqual(WITHOUT_ADA);
      const [order] = await project.rows('SELECT id, customer, name, cents FROM orders ORDER BY id');
      expect(order).toEqual({
        ...{ id: 1, customer: null, cents: 99 },
        name: expect.stringMatching(/^erased-[0-9a-f-]{36}$/) as string,
      });
      const id = (response.body.erasure as { id: string }).id;
      await expect
        .poll(async () => (await project.call('GET', `/api/cdp/subjects/erasures/${id}`, { token })).body.erasure, {
          timeout: 60_000,
        })
        .toMatchObject({ state: 'done', error: null, result, upkeep: { second_look: 0 } });
      expect((await erased(project)).result).toMatchObject({
        tables: result.tables.map(({ table }) => ({ table, deleted: 0, changed: 0 })),
      });
    });

    it('proves it by a receipt that only the nonce links to the person', async () => {
      const project = await shop();
      const { receipt, nonce, id } = (await erased(project)) as Record<'receipt' | 'nonce' | 'id', string>;
      const { keys } = (await project.call('GET', '/api/cdp/subjects/keys')).body as { keys: JWK[] };
      const { payload } = await compactVerify(receipt, createLocalJWKSet({ keys }));
      const header = decodeProtectedHeader(receipt);
      expect(keys.map(({ kid }) => kid)).toContain(header.kid);
      await compactVerify(receipt, await importJWK(header.jwk as JWK, 'EdDSA'));
      const text = Buffer.from(payload).toString();
      expect(text).not.toMatch(/ada@|1001/);
      const proof = JSON.parse(text) as ReceiptPayload;
      expect(proof).toMatchObject({ erasure: id, project: project.name, kind: 'person' });
      expect(proof.still_held.length).toBeGreaterThan(0);
      const hmac = (identifier: string, value: string) =>
        createHmac('sha256', Buffer.from(nonce, 'base64url'))
          .update(committedText('person', identifier, value))
          .digest('base64url');
      expect(proof.commitments).toEqual([
        { identifier: 'email', normalization: 'caseless-1', hmac: hmac('email', 'ada@example.com') },
        { identifier: 'customer_no', normalization: 'exact-1', hmac: hmac('customer_no', '1001') },
      ]);
      // The nonce is stored nowhere, and neither is the person.
      const rows = await service.engine.control.ask((pool) =>
        pool.query({ text: `SELECT e::text FROM cdp.erasures e WHERE id = '${id}'`, params: [] }),
      );
      expect(rows[0]?.[0]).not.toContain(nonce);
      expect(rows[0]?.[0]).not.toMatch(/ada@|"1001"/);
    });

    it('erases what the quarantine and the keys have, however it is written, and lets no repeat bring it back', async () => {
      const project = await shop();
      const insert = (body: string, headers: Record<string, string> = {}, query = '') =>
        project.call('POST', `/api/cdp/data/customers${query}`, { body, headers });
      const quarantined = '?on_error=quarantine';
      await insert('[{"no": "x", "email": "\\u0061da@Example.com"}]', {}, quarantined);
      await insert('[{"no": 1001, "city": true, "emails": 1}]', {}, quarantined);
      await insert('[{"no": "y", "note": {"by": "Ada <ada@example.com>"}}]', {}, quarantined);
      await insert('[{"no": 71001, "emails": 1}]', {}, quarantined);
      const sql = (statement: string, key: string) =>
        project.call('POST', '/api/cdp/sql', { body: { sql: statement }, headers: { 'idempotency-key': key } });
      const select = `UPDATE customers SET city = 'Paris' WHERE no = 1001 RETURNING email`;
      expect((await sql(select, 'answered')).status).toBe(200);
      const update = `UPDATE customers SET city = 'Oslo' WHERE no = 1002 RETURNING email`;
      expect((await sql(update, 'welcome-ada@example.com-1')).status).toBe(200);
      expect((await sql(update, 'other')).status).toBe(200);
      expect((await post(project, 'find')).body.places).toEqual([
        { place: 'quarantine', count: 3 },
        { place: 'idempotency keys', count: 2 },
        { place: 'segments', count: 0 },
      ]);

      const { result } = (await erased(project)) as { result: ErasureOutcome };
      expect(result.places).toEqual([
        { place: 'quarantine', count: 3 },
        { place: 'idempotency keys', count: 2 },
        { place: 'segments', count: 0 },
      ]);
      expect(await project.rows('SELECT record FROM _cdp.quarantined')).toEqual([
        { record: expect.stringContaining('71001') as string },
      ]);
      const keys = await project.rows('SELECT key, answer FROM _cdp.idempotency_keys ORDER BY key');
      expect(keys.map(({ key }) => key)).toEqual(['answered', 'other']);
      expect(JSON.stringify(keys)).not.toContain('ada@');
      expectFailure(await sql(select, 'answered'), 422, 'idempotency_key_reused');
      expect((await sql(update, 'other')).headers.get('idempotency-replayed')).toBe('true');
    });

    it('erases from segments, whatever their keys are, and the next run tells nothing of it', async () => {
      const project = await shop();
      const segment = async (name: string, column: string) => {
        const body = { sql: `SELECT ${column} AS key FROM customers`, every: '1h' };
        expect((await project.call('PUT', `/api/cdp/segments/${name}`, { body })).status).toBe(200);
        expect((await project.call('POST', `/api/cdp/segments/${name}/run`)).status).toBe(200);
      };
      await segment('by_number', 'no');
      await segment('by_mail', 'upper(email)');
      const { not_covered: notCovered } = (await project.call('GET', '/api/cdp/subjects')).body;
      expect(JSON.stringify(notCovered)).not.toContain('segment');
      const { result } = (await erased(project)) as { result: ErasureOutcome };
      expect(result.places).toContainEqual({ place: 'segments', count: 4 });
      expect(result.others.map(({ table }) => table)).not.toContain('segment_members');
      expect((await project.call('POST', '/api/cdp/segments/by_number/run')).status).toBe(200);
      for (const table of ['segment_members', 'segment_changes']) {
        const text = JSON.stringify(await project.rows(`SELECT * FROM ${table}`));
        expect(text).toContain('1002');
        expect(text).not.toMatch(/1001|ADA@/);
      }
    });

    it('counts what CASCADE takes, and erases what a history trigger writes anew', async () => {
      const project = await shop();
      await project.rows(`
        CREATE TABLE carts (id int PRIMARY KEY, customer bigint REFERENCES customers ON DELETE CASCADE);
        INSERT INTO carts VALUES (1, 1001), (2, 1001), (3, 1002);
        CREATE TABLE history (at timestamptz DEFAULT now(), email text);
        CREATE TABLE log (line text);
        CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN INSERT INTO history (email) VALUES (OLD.email); INSERT INTO log VALUES ('gone: ' || OLD.email); RETURN OLD; END $$;
        CREATE TRIGGER keep BEFORE DELETE ON customers FOR EACH ROW EXECUTE FUNCTION keep()`);
      await declare(project, people({ history: { columns: { email: 'email' }, erase: 'delete' } }));
      const { result } = (await erased(project)) as { result: ErasureOutcome };
      expect(result.rounds).toBe(2);
      expect(result.tables).toContainEqual({ table: 'history', deleted: 1, changed: 0 });
      expect(result.others).toEqual(
        expect.arrayContaining([
          { table: 'carts', inserted: 0, updated: 0, deleted: 2 },
          { table: 'history', inserted: 1, updated: 0, deleted: 0 },
          { table: 'log', inserted: 1, updated: 0, deleted: 0 },
        ]),
      );
      expect(await project.rows('SELECT * FROM history')).toEqual([]);
      // What is not declared is found by a search.
      const search = await project.call('POST', '/api/cdp/subjects/find?search=value', { body: ADA });
      expect(search.body.searched).toEqual({
        found: [{ table: 'log', column: 'line', rows: 1 }],
        not_searched: [],
      });
      const { not_covered } = (await project.call('GET', '/api/cdp/subjects')).body;
      expect(not_covered).toContainEqual({ table: 'carts', columns: ['customer'] });
    });

    it('erases many rows and many people by a job, refreshes materialized views, and reaches partitions', async () => {
      const project = await shop();
      await project.rows(`
        CREATE TABLE visits (user_id text, at int) PARTITION BY RANGE (at);
        CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM (0) TO (1000);
        CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM (1000) TO (100000);
        INSERT INTO visits SELECT '1001', n FROM generate_series(1, 2000) n;
        INSERT INTO visits SELECT n::text, n FROM generate_series(5001, 14998) n;
        CREATE MATERIALIZED VIEW visitors AS SELECT user_id, count(*) FROM visits GROUP BY 1`);
      const visits = { columns: { user_id: 'customer_no' }, erase: 'delete' } as const;
      await declare(project, people({ visits }, { materialized_views: ['visitors'] }));
      const response = await erase(project);
      expect(response.status, response.text).toBe(202);
      const numbers = Array.from({ length: 9_998 }, (_, i) => i + 5_001);
      const [, all] = await Promise.all([
        erased(project),
        erased(project, { person: { customer_no: [1002, ...numbers] }, max_rows: 20_000 }),
      ]);
      expect(all.state, String(all.error)).toBe('done');
      expect((all.result as ErasureOutcome).tables).toContainEqual({ table: 'visits', deleted: 9_998, changed: 0 });
      expect(await project.rows('SELECT count(*)::int AS n FROM visits')).toEqual([{ n: 0 }]);
      expect(await project.rows('SELECT count(*)::int AS n FROM visitors')).toEqual([{ n: 0 }]);
      expect(await numbersIn(project)).toEqual(['1003']);
    });

    it('proposes a declaration from unique columns, foreign keys and names, and names what looks like an identifier', async () => {
      const project = await service.project();
      await project.rows(`
        CREATE TABLE users (id bigint PRIMARY KEY, email text, birthday date);
        CREATE TABLE orders (id int PRIMARY KEY, buyer bigint REFERENCES users, email text);
        CREATE TABLE colors (name text);
        CREATE VIEW emails AS SELECT email FROM users`);
      const { body } = await project.call('GET', '/api/cdp/subjects/proposal');
      expect(body.subjects).toEqual({
        person: {
          identifiers: { user_id: {}, email: { normalization: 'caseless-1' } },
          tables: {
            users: { columns: { id: 'user_id', email: 'email' }, erase: 'delete', one_row_per_subject: true },
            orders: { columns: { buyer: 'user_id', email: 'email' }, erase: 'delete' },
          },
        },
      });
      expect(body.not_covered).toEqual([{ table: 'colors', columns: [] }]);
      await declare(project, body.subjects as Declaration);
      await project.rows('CREATE TABLE leads (e_mail text, phone text, score int)');
      expect((await project.call('GET', '/api/cdp/subjects')).body).toMatchObject({
        problems: [],
        not_covered: [
          { table: 'colors', columns: [] },
          { table: 'leads', columns: ['e_mail', 'phone'] },
        ],
      });
    });
  });

  describe('refuses', () => {
    it('an erasure without its scope, and everything to tokens that act as a role', async () => {
      const project = await shop();
      expectFailure(await post(project, 'erase'), 403, 'insufficient_scope');
      await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
      const token = await project.tokenAs('intern', 'sql:read', 'subjects:erase');
      for (const what of ['find', 'export', 'erase'])
        expectFailure(
          await project.call('POST', `/api/cdp/subjects/${what}`, { body: ADA, token }),
          403,
          'insufficient_scope',
        );
    });

    it('a declaration, naming every wrong place', async () => {
      const project = await service.project();
      await project.rows(`
        CREATE TABLE t (no int NOT NULL, email text UNIQUE, low text GENERATED ALWAYS AS (lower(email)) STORED, data jsonb, city text);
        CREATE VIEW v AS SELECT * FROM t; CREATE TABLE p (email text) PARTITION BY LIST (email); CREATE TABLE p1 PARTITION OF p DEFAULT`);
      const columns = { email: 'email' };
      const subjects = {
        person: {
          identifiers: { email: {}, unused: {} },
          tables: {
            gone: { columns, erase: 'delete' },
            v: { columns, erase: 'delete' },
            p1: { columns, erase: 'delete' },
            t: {
              columns: { email: 'email', low: 'email', data: 'email', nothing: 'email', city: 'mail' },
              erase: { set: { email: 'erased', no: null, low: null } },
            },
          },
          materialized_views: ['v'],
        },
        max_rows: { identifiers: { email: {} }, tables: { t: { columns, erase: 'delete' } } },
      };
      const response = await project.call('PUT', '/api/cdp/subjects', { body: { subjects } });
      const { errors } = response.body as { errors: { message: string }[] };
      const said = errors.map(({ message }) => message).join('\n');
      for (const wrong of [
        'There is no table "gone"',
        '"v" is a view',
        '"p1" is a partition',
        '"t"."low" is generated',
        '"t"."data" has the type jsonb',
        '"t"."nothing" does not exist',
        '"t"."city" holds "mail"',
        '"t"."data" would still identify',
        '"t"."email" is unique',
        '"t"."no" is NOT NULL',
        'No column holds the identifier "unused"',
        'There is no materialized view "v"',
        'A kind cannot be called "max_rows"',
      ])
        expect.soft(said).toContain(wrong);
      expect((await project.call('GET', '/api/cdp/subjects')).body.subjects).toBeNull();
    });

    it.each([
      ['an empty value', { person: { email: '' } }, 400, 'invalid_request'],
      ['a blank value', { person: { email: ' \n' } }, 400, 'invalid_value'],
      ['null', { person: { email: null } }, 400, 'invalid_request'],
      ['no identifier', { person: {} }, 400, 'invalid_request'],
      ['an unknown identifier', { person: { phone: '1' } }, 400, 'invalid_request'],
      ['two kinds', { person: { email: 'a' }, company: { email: 'a' } }, 400, 'invalid_request'],
      ['an undeclared kind', { company: { email: 'a' } }, 404, 'not_found'],
      ['text that Postgres cannot store', { person: { email: 'a\0' } }, 400, 'invalid_value'],
      ['a number without all digits', { person: { customer_no: 2 ** 60 } }, 400, 'invalid_value'],
      [
        'too many values',
        { person: { customer_no: Array.from({ length: 10_001 }, (_, i) => i) } },
        400,
        'invalid_request',
      ],
    ])('%s', async (_, body, status, code) => {
      const project = await shop();
      for (const response of [await post(project, 'find', body), await erase(project, body)])
        expectFailure(response, status, code);
      expect(await numbersIn(project)).toEqual(WITH_BOTH);
    });

    it('what matches more rows than allowed, and people joined by an identifier, unless the caller says so', async () => {
      const project = await shop();
      await project.rows(`ALTER TABLE customers DROP CONSTRAINT customers_email_key;
        INSERT INTO customers SELECT n, 'unknown@example.com' FROM generate_series(2001, 12001) n`);
      const unknown = { person: { email: 'unknown@example.com' } };
      for (const query of ['', '?dry_run=true', '?deep=true']) {
        const response = await erase(project, unknown, query);
        expectFailure(response, 400, 'invalid_request');
        expect(response.text).toContain('max_rows');
      }
      expect(await project.rows('SELECT count(*)::int AS n FROM customers')).toEqual([{ n: 10_004 }]);

      await project.rows(`UPDATE customers SET email = 'ada@example.com' WHERE no = 1002`);
      expect((await post(project, 'find')).body.joined).toEqual([{ table: 'customers', subjects: 2 }]);
      const refused = await erase(project);
      expectFailure(refused, 400, 'invalid_request');
      expect(refused.text).toContain('joined');
      expect(await numbersIn(project)).toContain('1001');
      await erased(project, { ...ADA, joined: true });
      expect((await numbersIn(project)).filter((no) => Number(no) < 2000)).toEqual(['1003']);
    });

    it('an erasure that RESTRICT or a trigger stops, naming it, and nothing is erased', async () => {
      const project = await shop();
      await project.rows(
        `CREATE TABLE invoices (customer bigint REFERENCES customers); INSERT INTO invoices VALUES (1001)`,
      );
      const restricted = await erase(project);
      expectFailure(restricted, 400, 'constraint_violation');
      expect(restricted.text).toContain('invoices');
      await project.rows(`DELETE FROM invoices;
        CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER keep BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()`);
      const kept = await erase(project);
      expectFailure(kept, 400, 'constraint_violation');
      expect(kept.text).toContain('2 rows of \\"events\\"');
      expect(await numbersIn(project)).toEqual(WITH_BOTH);
      await project.rows('DROP TABLE events');
      const gone = await erase(project);
      expectFailure(gone, 404, 'table_not_found');
      expect(gone.text).toContain('events');
      expect((await project.call('GET', '/api/cdp/subjects')).body.problems).toEqual([
        { table: 'events', problem: 'There is no table "events"' },
      ]);
      const token = await project.tokenWith('subjects:erase');
      const { erasures } = (await project.call('GET', '/api/cdp/subjects/erasures', { token })).body;
      expect(erasures).toMatchObject([
        { state: 'failed', result: null, receipt: null },
        { state: 'failed', error: 'constraint_violation: SQLSTATE 23503, constraint invoices_customer_fkey' },
      ]);
    });

    it('rows that policies hide from the owner, rather than leaving them out', async () => {
      const project = await shop();
      await project.rows(`ALTER TABLE events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
        CREATE POLICY few ON events USING (page <> '/b')`);
      expect((await erase(project)).status).toBe(403);
      expect((await post(project, 'find')).status).toBe(403);
      await project.rows('ALTER TABLE events DISABLE ROW LEVEL SECURITY');
      expect(await numbersIn(project)).toEqual(WITH_BOTH);
    });
  });

  describe('protects', () => {
    it('leaves nothing of the state before, while the same person is inserted all the time', async () => {
      const project = await shop();
      const stop = new AbortController();
      let sent = 0;
      const sending = Promise.all(
        Array.from({ length: 4 }, async () => {
          while (!stop.signal.aborted) {
            const body = JSON.stringify([{ user_id: '1001', page: `/${++sent}` }]);
            await project.call('POST', '/api/cdp/data/events', { body });
          }
        }),
      );
      await expect.poll(() => sent).toBeGreaterThan(20);
      const response = await erase(project);
      const after = await project.rows(`SELECT page, xmin::text::bigint AS x FROM events WHERE user_id = '1001'`);
      stop.abort();
      await sending;
      expect(response.status, response.text).toBe(200);
      expect(after.map(({ page }) => page)).not.toContain('/a');
      // By the order of commits: whatever was committed before it is gone.
      expect(after.length).toBeLessThan(sent);
    });

    it('a service from an erasure that fails for no known reason: it waits longer and longer, says so, and ends', async () => {
      const { erasures, control } = service.engine;
      const project = await shop();
      const token = await project.tokenWith('subjects:erase');
      const ending = vi.spyOn(control.subjects, 'setDone').mockRejectedValue(new Error('odd'));
      const real = performance.now.bind(performance);
      const clock = vi.spyOn(performance, 'now');
      try {
        const { address } = (await erase(project)).body as { address: string };
        const seen = async () => (await project.call('GET', address, { token })).body.erasure;
        const tried = (times: string) => ({
          state: 'cleaning',
          error: `internal: tried ${times}; the log of the service has more`,
        });
        await expect.poll(seen).toMatchObject(tried('1 time'));
        await erasures.resume();
        expect(await seen()).toMatchObject(tried('1 time'));
        clock.mockImplementation(() => real() + 16_000);
        await expect(erasures.resume()).rejects.toThrow(/^The erasure [0-9a-f-]{36}: odd$/);
        expect(await seen()).toMatchObject(tried('2 times'));
        clock.mockImplementation(() => real() + 32_000);
        await erasures.resume();
        expect(await seen()).toMatchObject(tried('2 times'));
        ending.mockRestore();
        clock.mockImplementation(() => real() + 64_000);
        await erasures.resume();
        expect(await seen()).toMatchObject({ state: 'done', error: null });
      } finally {
        ending.mockRestore();
        clock.mockRestore();
      }
    });

    it('an erasure from changes of the tables and the declaration behind it: it ends, and names what it could not do', async () => {
      const project = await shop();
      const { subjects } = service.engine.control;
      const setErased = subjects.setErased.bind(subjects);
      const spy = vi.spyOn(subjects, 'setErased').mockImplementationOnce(async (...what) => {
        await setErased(...what);
        await project.rows('DROP TABLE events');
        const tables = { orders: { columns: { customer: 'no' }, erase: { set: { customer: null } } } } as const;
        await declare(project, { buyer: { identifiers: { no: {} }, tables } });
      });
      const done = await erased(project);
      spy.mockRestore();
      expect(done).toMatchObject({ state: 'done', upkeep: { second_look: 0 } });
      const { steps } = done.upkeep as Upkeep;
      expect(steps).toContainEqual({ step: 'events', ms: 0, problem: 'There is no table "events"' });
      expect(steps.map(({ step }) => step)).toContain('VACUUM customers');
    });

    it('one project from another, also in what it tells of erasures', async () => {
      const [mine, other] = [await shop(), await shop()];
      const { id } = (await erased(mine)) as { id: string };
      expect(await numbersIn(other)).toEqual(WITH_BOTH);
      const token = await other.tokenWith('subjects:erase');
      for (const path of [id, 'nothing', `${id}x`])
        expectFailure(await other.call('GET', `/api/cdp/subjects/erasures/${path}`, { token }), 404, 'not_found');
      await erased(other, BOB);
      expect(await numbersIn(mine)).toEqual(WITHOUT_ADA);
    });
  });
});
