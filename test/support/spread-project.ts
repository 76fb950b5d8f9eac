/**
 * A project whose tables are distributed over the workers of a Citus cluster in every possible way, and what its copies
 * must have in common with it.
 */
import { expect } from 'vitest';
import { expectFailure, type TestProject } from './service.js';

export async function spread(project: TestProject): Promise<void> {
  await project.rows(`
    CREATE TABLE customers (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text);
    CREATE TABLE countries (code text PRIMARY KEY);
    CREATE TABLE orders (id uuid DEFAULT gen_random_uuid(), customer uuid NOT NULL, country text, n integer,
      PRIMARY KEY (id, customer));
    CREATE TABLE notes (id serial PRIMARY KEY, country text REFERENCES countries);
    CREATE TABLE plain (a text)`);
  for (const [table, body] of [
    ['customers', { kind: 'hash', column: 'id' }],
    ['orders', { kind: 'hash', column: 'customer', colocate_with: 'customers' }],
  ] as const) {
    const response = await project.call('PUT', `/api/cdp/schema/table/${table}/distribution`, { body });
    expect(response.status, response.text).toBe(200);
  }
  // A foreign key of a local table keeps the API from it.
  await project.rows(`SELECT create_reference_table('countries')`);
  await project.rows('ALTER TABLE orders ADD CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id)');
  await project.rows('ALTER TABLE orders ADD CONSTRAINT to_country FOREIGN KEY (country) REFERENCES countries (code)');
  await project.rows(`
    INSERT INTO countries VALUES ('at'), ('fr');
    INSERT INTO customers (name) SELECT 'c' || n FROM generate_series(1, 50) n;
    INSERT INTO orders (customer, country, n) SELECT c.id, 'fr', n FROM customers c, generate_series(1, 4) n;
    INSERT INTO notes (country) VALUES ('at');
    INSERT INTO plain VALUES ('x')`);
}

/** @returns how each table is distributed */
export async function distributionOf(project: TestProject): Promise<Record<string, unknown>> {
  const { body } = await project.call('GET', '/api/cdp/schema');
  const tables = body.tables as { name: string; distribution?: Record<string, unknown> }[];
  return Object.fromEntries(
    tables.map(({ name, distribution = null }) => {
      const { kind, column, shards, colocated_with: others } = distribution ?? {};
      return [name, distribution && { kind, column, shards, others }];
    }),
  );
}

/** Its rows are there, and rows that refer to nothing are refused. */
export async function expectIntact(project: TestProject): Promise<void> {
  expect(
    await project.rows(`SELECT (SELECT count(*) FROM customers)::int AS customers, (SELECT sum(n) FROM orders)::int AS sum,
      (SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer)::int AS joined,
      (SELECT count(*) FROM countries)::int AS countries, (SELECT max(id) FROM notes) AS note, (SELECT a FROM plain) AS a`),
  ).toEqual([{ customers: 50, sum: 500, joined: 200, countries: 2, note: 1, a: 'x' }]);
  for (const rows of [`VALUES (gen_random_uuid(), 'fr')`, `SELECT id, 'xx' FROM customers`]) {
    const sql = `INSERT INTO orders (customer, country) ${rows}`;
    expectFailure(await project.call('POST', '/api/cdp/sql', { body: { sql } }), 400, 'constraint_violation');
  }
  expect(await project.rows(`INSERT INTO notes (country) VALUES ('fr') RETURNING id`)).toEqual([{ id: 2 }]);
  await project.rows("DELETE FROM notes WHERE id = 2; SELECT setval('notes_id_seq', 1)");
}
