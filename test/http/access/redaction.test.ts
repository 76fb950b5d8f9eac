/** What an error tells: no values and no names that the caller's token may not read otherwise. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Scope } from '../../../src/contract/names.js';
import { tool } from '../../support/mcp.js';
import { testServers } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
  });
  afterAll(() => service.close());

  const send = async (scopes: readonly Scope[], method: string, path: string, body?: unknown) =>
    project.call(method, path, { token: await project.tokenWith(...scopes), ...(body === undefined ? {} : { body }) });

  describe('values of other rows', () => {
    beforeAll(async () => {
      await project.rows(`CREATE TABLE stays (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
        INSERT INTO stays VALUES (1, '[37,42)');
        CREATE TABLE people (email text PRIMARY KEY, code text DEFAULT 'SECRET', age int CHECK (age < 150),
          CHECK ((coalesce(email, '') || code) <> 'x'));
        INSERT INTO people VALUES ('a', 'SECRET', 1);
        CREATE TABLE pets (owner text REFERENCES people);
        INSERT INTO pets VALUES ('a');
        CREATE TABLE counted (k int PRIMARY KEY, a text NOT NULL, b text NOT NULL DEFAULT '1',
          n int GENERATED ALWAYS AS (CASE WHEN a = 'number' THEN b::int END) STORED);
        INSERT INTO counted (k, a, b) VALUES (1, 'text', 'SECRET')`);
    });

    const writers: [string, string, string, unknown, number, string][] = [
      ['an exclusion constraint', 'POST', 'stays', [{ id: 2, during: '(,)' }], 400, '[37,42)'],
      ['the same in a dry run', 'POST', 'stays?dry_run=true', [{ id: 2, during: '(,)' }], 400, '[37,42)'],
      ['a check', 'POST', 'people', [{ email: 'b', age: 200 }], 400, 'SECRET'],
      ['a foreign key of another table', 'DELETE', 'people?by=email', [{ email: 'a' }], 400, 'pets".'],
    ];
    it.each(writers)('%s', async (_what, method, path, body, status, secret) => {
      const full = await project.call(method, `/api/cdp/data/${path}`, { body });
      const detail = expectFailure(full, status, 'constraint_violation').postgres?.detail;
      expect(detail).toContain(secret);
      // Row level security may hide rows from one that only reads.
      for (const scopes of [['data:write'], ['data:write', 'schema:read', 'sql:read']] as Scope[][]) {
        const response = await send(scopes, method, `/api/cdp/data/${path}`, body);
        const error = expectFailure(response, status, 'constraint_violation');
        expect(error.postgres).toMatchObject({ constraint: expect.any(String) as string });
        expect(error.postgres).not.toHaveProperty('detail');
        expect(response.text).not.toContain(detail);
      }
    });

    it('an expression over a stored row, and the message that quotes it', async () => {
      const path = '/api/cdp/data/counted?on_conflict=k';
      const body = [{ k: 1, a: 'number' }];
      expect((await project.call('POST', path, { body })).text).toContain('SECRET');
      for (const query of ['', '&dry_run=true', '&on_error=quarantine&dry_run=true']) {
        const response = await send(['data:write'], 'POST', path + query, body);
        expect(response.text).toContain('SQLSTATE 22P02');
        expect(response.text).not.toContain('SECRET');
      }
    });

    it('a trigger that reads another table', async () => {
      await project.rows(`CREATE TABLE copied (a text);
        CREATE FUNCTION read_code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF NEW.a = 'raise' THEN RAISE EXCEPTION 'choose another word' USING ERRCODE = '22000'; END IF;
          IF NEW.a = 'compose' THEN EXECUTE format('SELECT 1 FROM %I', (SELECT code FROM people)); END IF;
          PERFORM (SELECT code::int FROM people); RETURN NEW; END $$;
        CREATE TRIGGER read_code BEFORE INSERT ON copied FOR EACH ROW EXECUTE FUNCTION read_code()`);
      for (const a of ['cast', 'compose']) {
        expect((await project.call('POST', '/api/cdp/data/copied', { body: [{ a }] })).text).toContain('SECRET');
        expect((await send(['data:write'], 'POST', '/api/cdp/data/copied', [{ a }])).text).not.toContain('SECRET');
      }
      // The words of the project are for its callers.
      const raised = await send(['data:write'], 'POST', '/api/cdp/data/copied', [{ a: 'raise' }]);
      expect(raised.text).toContain('choose another word');
    });

    it('a schema call', async () => {
      await project.rows(`CREATE TABLE indexed (a text, b text); INSERT INTO indexed VALUES ('1', 'SECRET');
        CREATE INDEX ON indexed ((CASE WHEN a = '2' THEN b::int END))`);
      const path = '/api/cdp/schema/table/indexed/column/a?return=values';
      const body = { new_type: 'TEXT', map: { '1': '2' } };
      expect((await project.call('PUT', path, { body })).text).toContain('SECRET');
      expect((await send(['schema:write'], 'PUT', path, body)).text).not.toContain('SECRET');
      const unique = { name: 'c', type: 'TEXT', default: 'SECRET', unique: true };
      await project.rows(`INSERT INTO indexed VALUES ('3', '4')`);
      const added = await send(['schema:write'], 'POST', '/api/cdp/schema/table/indexed/column', unique);
      expect(expectFailure(added, 409, 'unique_violation').postgres).not.toHaveProperty('detail');
    });

    it('a tool of MCP', async () => {
      const { token } = project;
      const call = { records: [{ id: 2, during: '(,)' }], table: 'stays' };
      const of = async (given: string) => JSON.stringify(await tool(service, given, 'dry_run_insert', call));
      expect(await of(token)).toContain('[37,42)');
      expect(await of(await project.tokenWith('data:write', 'sql:read'))).not.toContain('[37,42)');
    });

    it('but not what the caller itself has sent', async () => {
      const twice = await send(['data:write'], 'POST', '/api/cdp/data/people', [{ email: 'a' }]);
      expect(expectFailure(twice, 409, 'unique_violation').postgres?.detail).toBe('Key (email)=(a) already exists.');
      await project.rows('CREATE TABLE nets (net inet)');
      const wrong = await send(['data:write'], 'POST', '/api/cdp/data/nets', [{ net: 'mine' }]);
      expect(expectFailure(wrong, 400, 'invalid_value').message).toContain('"mine"');
    });

    it('and free SQL, in which Postgres decides, says what Postgres says', async () => {
      const read = await send(['sql:read'], 'POST', '/api/cdp/sql', { sql: `SELECT code::int FROM people` });
      expect(expectFailure(read, 400, 'sql_error').message).toContain('SECRET');
      const sql = `INSERT INTO stays VALUES (2, '(,)')`;
      const write = expectFailure(
        await send(['sql:write'], 'POST', '/api/cdp/sql', { sql }),
        400,
        'constraint_violation',
      );
      expect(write.postgres?.detail).toContain('[37,42)');
    });
  });

  describe('names that exist', () => {
    beforeAll(() => project.table('customers', { email: 'TEXT' }));

    const requests: [string, Scope, string, string, unknown, string][] = [
      ['a table, of an insert', 'data:write', 'POST', '/api/cdp/data/custmers', [{ email: 'a' }], 'customers'],
      [
        'a table, of a delete',
        'data:write',
        'DELETE',
        '/api/cdp/data/custmers?by=email',
        [{ email: 'a' }],
        'customers',
      ],
      [
        'a column, of a record',
        'data:write',
        'POST',
        '/api/cdp/data/customers',
        [{ emial: 'a' }, { emial: 'b' }],
        'email',
      ],
      [
        'a column, in a dry run',
        'data:write',
        'POST',
        '/api/cdp/data/customers?dry_run=true',
        [{ emial: 'a' }],
        'email',
      ],
      [
        'a column, of a quarantined record',
        'data:write',
        'POST',
        '/api/cdp/data/customers?on_error=quarantine&dry_run=true',
        [{ emial: 'a' }],
        'email',
      ],
      [
        'a column, of a key',
        'data:write',
        'POST',
        '/api/cdp/data/customers?on_conflict=emial',
        [{ email: 'a' }],
        '\\"email',
      ],
      [
        'a column, of a change',
        'schema:write',
        'DELETE',
        '/api/cdp/schema/table/customers/column/emial',
        undefined,
        'email',
      ],
      [
        'a column, of an index',
        'schema:write',
        'POST',
        '/api/cdp/schema/table/customers/index',
        { columns: ['emial'] },
        '"email',
      ],
      [
        'an index',
        'schema:write',
        'DELETE',
        '/api/cdp/schema/table/customers/index/customers_pkye',
        undefined,
        'customers_pkey',
      ],
    ];
    it.each(requests)('%s', async (_what, scope, method, path, body, name) => {
      expect((await send([scope, 'schema:read'], method, path, body)).text).toContain(
        `Did you mean \\"${name.replace(/\W/g, '')}`,
      );
      const without = await send([scope], method, path, body);
      expect(without.text).toContain('"error":"');
      expect(without.text).not.toMatch(/Did you mean|"hint"/);
      expect(without.text).not.toContain(`"${name.replace(/\W/g, '')}\\"`.slice(1));
      if (Array.isArray(body) && body.length === 2)
        expect(without.body.message).toMatch(/"emial" \(and 1 more error\)$/);
    });
  });

  describe('the quarantine of tables that the reader may not read', () => {
    let ada: TestProject;
    const all = ['closed', 'dropped', 'guarded', 'in_part', 'open'];
    beforeAll(async () => {
      ada = await service.project();
      for (const name of all) {
        await ada.table(name, { n: 'INTEGER' });
        const path = `/api/cdp/data/${name}?on_error=quarantine`;
        expect((await ada.call('POST', path, { body: [{ n: `secret of ${name}` }] })).status).toBe(201);
      }
      const { placement } = await service.engine.projects.get(ada.name);
      const reader = `"${placement.reader}"`;
      await ada.rows(`REVOKE SELECT ON closed, in_part FROM ${reader}; GRANT SELECT (id) ON in_part TO ${reader};
        ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; DROP TABLE dropped`);
    });

    const listed = async (scopes: Scope[]) => {
      const response = await ada.call('GET', '/api/cdp/quarantine', { token: await ada.tokenWith(...scopes) });
      return (response.body.records as { table: string }[]).map(({ table }) => table).sort();
    };
    const selected = async (scopes: Scope[], read_only: boolean) => {
      const body = { sql: 'SELECT table_name AS t FROM _cdp.quarantine ORDER BY 1', read_only };
      const response = await ada.call('POST', '/api/cdp/sql', { body, token: await ada.tokenWith(...scopes) });
      return (response.body.rows as { t: string }[]).map(({ t }) => t);
    };

    it('is closed to a token that only reads, by the route and by SQL', async () => {
      expect(await listed(['sql:read'])).toEqual(['open']);
      expect(await selected(['sql:read'], true)).toEqual(['open']);
      expect(await listed(['sql:read', 'sql:write'])).toEqual(all);
      expect(await selected(['sql:write'], false)).toEqual(all);
    });

    it('is closed to a function that sees each row before it is filtered, and to the table behind it', async () => {
      const token = await ada.tokenWith('sql:read');
      const ask = (sql: string) => ada.call('POST', '/api/cdp/sql', { token, body: { sql } });
      expect(
        (await ask(`SELECT 1 FROM _cdp.quarantine WHERE record::json->>'n' = 'x' OR (record || 'x')::int = 1`)).text,
      ).not.toMatch(/secret of (?:closed|guarded|in_part|dropped)/);
      expectFailure(await ask('SELECT * FROM _cdp.quarantined'), 403, 'permission_denied');
    });

    it('shows no errors of a replay, which quote the records', async () => {
      const replay = async (table: string, scopes: Scope[]) =>
        ada.call('POST', '/api/cdp/quarantine/replay', { body: { table }, token: await ada.tokenWith(...scopes) });
      const closed = await replay('closed', ['data:write', 'sql:read']);
      expect(closed.body).toMatchObject({ refused_rows: 1, errors: [] });
      expect((await replay('open', ['data:write', 'sql:read'])).text).toContain('secret of open');
      expect((await replay('closed', ['data:write', 'sql:write'])).text).toContain('secret of closed');
    });

    it('can be changed by the writer, as before', async () => {
      await ada.rows(`INSERT INTO _cdp.quarantine (table_name, record, errors) VALUES ('open', '{}', '[]')`);
      await ada.rows(`UPDATE _cdp.quarantine SET record = '{"n":1}' WHERE record = '{}'`);
      expect(await ada.rows(`DELETE FROM _cdp.quarantine WHERE record = '{"n":1}' RETURNING table_name`)).toEqual([
        { table_name: 'open' },
      ]);
    });
  });
});
