/** A project with people in it, for tests of their rights. */
import { expect } from 'vitest';
import type { Declaration } from '../../src/contract/wire/subjects.js';
import type { TestProject, TestResponse } from './service.js';

export const PEOPLE: Declaration = {
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

/** Ada is 1001, Bob is 1002. */
const TABLES = `
  CREATE TABLE customers (no bigint PRIMARY KEY, email text UNIQUE, city varchar(40));
  CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, user_id text, page text);
  CREATE TABLE orders (id int PRIMARY KEY, customer bigint REFERENCES customers, name text NOT NULL UNIQUE, cents int);
  INSERT INTO customers VALUES (1001, ' ada@example.com', 'London'), (1002, 'bob@example.com', 'Bonn'), (1003, NULL, 'Rome');
  INSERT INTO events (user_id, page) VALUES ('1001', '/a'), ('1001', '/b'), ('1002', '/a'), ('', '/c'), (NULL, '/d');
  INSERT INTO orders VALUES (1, 1001, 'Ada', 99), (2, 1002, 'Bob', 5)`;

export const ADA = { person: { email: 'Ada@Example.com' } };
export const BOB = { person: { email: 'bob@example.com' } };

export async function declare(project: TestProject, subjects: Declaration = PEOPLE): Promise<void> {
  const response = await project.call('PUT', '/api/cdp/subjects', { body: { subjects } });
  expect(response.text).toMatch(/^\{"success":true/);
}

/** Fills a project, and declares where its people are. */
export async function withPeople(project: TestProject): Promise<TestProject> {
  await project.rows(TABLES);
  await declare(project);
  return project;
}

export async function erase(project: TestProject, body: object = ADA, query = ''): Promise<TestResponse> {
  const token = await project.tokenWith('subjects:erase');
  return project.call('POST', `/api/cdp/subjects/erase${query}`, { body, token });
}

/** An erasure that must succeed, until its end. */
export async function erased(project: TestProject, body: object = ADA, query = ''): Promise<Record<string, unknown>> {
  const response = await erase(project, body, query);
  expect(response.text).toMatch(/^\{"success":true/);
  const token = await project.tokenWith('subjects:erase');
  const state = async () =>
    (await project.call('GET', String(response.body.address), { token })).body.erasure as Record<string, unknown>;
  await expect.poll(async () => (await state()).state, { timeout: 60_000, interval: 50 }).toMatch(/done|failed/);
  return { ...(await state()), nonce: response.body.nonce };
}

/** Of customers, events and orders. */
export const numbersIn = async (project: TestProject): Promise<unknown[]> =>
  (
    await project.rows(`SELECT no::text AS n FROM customers UNION ALL SELECT user_id FROM events WHERE user_id <> ''
      UNION ALL SELECT customer::text FROM orders WHERE customer IS NOT NULL ORDER BY 1`)
  ).map(({ n }) => n);

export const WITHOUT_ADA = ['1002', '1002', '1002', '1003'];
export const WITH_BOTH = ['1001', '1001', '1001', '1001', ...WITHOUT_ADA];
