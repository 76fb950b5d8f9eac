/** People in a project: declaring where they are, finding them, handing over, and erasing them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Declaration } from '../../../src/contract/wire/subjects.js';
import { testServers } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

const ADA = 'Ada@Example.com';

const SUBJECTS: Declaration = {
  person: {
    identifiers: { email: { normalization: 'caseless-1' }, customer_no: {} },
    tables: {
      customers: { columns: { email: 'email', no: 'customer_no' }, erase: 'delete', one_row_per_subject: true },
      events: { columns: { user_id: 'customer_no' }, erase: 'delete' },
      orders: {
        columns: { customer: 'customer_no' },
        erase: { set: { customer: null, name: { random: 'erased-' } } },
      },
    },
  },
};

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({}, server);
  });
  afterAll(() => service.close());

  const TABLES = `
    CREATE TABLE customers (no bigint PRIMARY KEY, email text UNIQUE, city varchar(40));
    CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, user_id text, page text);
    CREATE TABLE orders (id int PRIMARY KEY, customer bigint REFERENCES customers, name text NOT NULL UNIQUE, cents int);
    INSERT INTO customers VALUES (1001, ' ada@example.com', 'London'), (1002, 'bob@example.com', 'Bonn'), (1003, NULL, 'Rome');
    INSERT INTO events (user_id, page) VALUES ('1001', '/a'), ('1001', '/b'), ('1002', '/a'), ('', '/c'), (NULL, '/d');
    INSERT INTO orders VALUES (1, 1001, 'Ada', 99), (2, 1002, 'Bob', 5)`;

  const shop = async (): Promise<TestProject> => {
    const project = await service.project();
    await project.rows(TABLES);
    const response = await project.call('PUT', '/api/cdp/subjects', { body: { subjects: SUBJECTS } });
    expect(response.text).toMatch(/^\{"success":true/);
    return project;
  };
  const eraser = (project: TestProject) => project.tokenWith('subjects:erase');
  const erase = async (project: TestProject, body: object = { person: { email: ADA } }, query = '') =>
    project.call('POST', `/api/cdp/subjects/erase${query}`, { body, token: await eraser(project) });
  const contents = async (project: TestProject) => ({
    customers: await project.rows('SELECT no FROM customers ORDER BY 1'),
    events: await project.rows('SELECT user_id FROM events ORDER BY 1'),
    orders: await project.rows('SELECT id, customer, name, cents FROM orders ORDER BY 1'),
  });

  describe('works', () => {
    it('finds a person by links, hands everything over, and erases it', async () => {
      const project = await shop();
      const found = await project.call('POST', '/api/cdp/subjects/find', { body: { person: { email: ADA } } });
      expect(found.text).toMatch(/^\{"success":true/);
      expect(found.body).toMatchObject({
        message: '4 rows in 3 tables',
        identifiers: { email: ['ada@example.com'], customer_no: ['1001'] },
        joined: [],
      });
      const exported = await project.call('POST', '/api/cdp/subjects/export', { body: { person: { email: ADA } } });
      const lines = exported.text.trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines).toHaveLength(5);
      expect(lines.at(-1)).toMatchObject({ manifest: { tables: { customers: 1, events: 2, orders: 1 }, rows: 4 } });
      expect(lines).toContainEqual({ table: 'customers', row: { no: 1001, email: ' ada@example.com', city: 'London' } });

      const before = await contents(project);
      const rehearsed = await erase(project, undefined, '?dry_run=true');
      expect(rehearsed.text).toMatch(/^\{"success":true/);
      const result = {
        tables: [
          { table: 'events', deleted: 2, changed: 0 },
          { table: 'orders', deleted: 0, changed: 1 },
          { table: 'customers', deleted: 1, changed: 0 },
        ],
        others: [],
      };
      expect(rehearsed.body.result).toMatchObject(result);
      expect(await contents(project)).toEqual(before);

      const erased = await erase(project);
      expect(erased.text).toMatch(/^\{"success":true/);
      expect(erased.status).toBe(200);
      expect(erased.body.erasure).toMatchObject({ state: expect.stringMatching(/cleaning|done/), result });
      const after = await contents(project);
      expect(after.customers).toEqual([{ no: 1002 }, { no: 1003 }]);
      expect(after.events.map(({ user_id }) => user_id)).toEqual(['', '1002', null]);
      expect(after.orders[0]).toEqual({ id: 1, customer: null, name: expect.stringMatching(/^erased-[0-9a-f-]{36}$/), cents: 99 });
    });
  });

  describe('refuses', () => {
    it('an erasure without its scope', async () => {
      const project = await shop();
      const response = await project.call('POST', '/api/cdp/subjects/erase', { body: { person: { email: ADA } } });
      expectFailure(response, 403, 'insufficient_scope');
    });
  });
});
