/**
 * What a change of a column must never do: take effect in part, harm others, or lock a table for long (contract
 * C6).
 */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service.js';
import { embeddedServer } from '../../support/postgres.js';
import { columnTypes, expectRefused, snapshot } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { columnPath, inDatabase, refuseComments, tablePath, Tables } from '../../support/tables.js';

describe.each([embeddedServer()])('a column change protects on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  it('atomicity: if one part fails, no other takes effect', async () => {
    const name = await tables.fresh({ a: 'TEXT', b: 'TEXT' });
    await tables.insert(name, [{ a: 'no number' }]);
    const body = { new_name: 'c', new_type: 'INTEGER', comment: 'x' };
    await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 409, 'not_convertible');
    await expectRefused(
      project,
      ['PUT', columnPath(name, 'a'), { ...body, new_type: 'JSONB' }],
      409,
      'not_convertible',
    );
  });

  it('atomicity: a column whose comment fails is not added', async () => {
    const other = await service.project();
    const theirs = new Tables(other);
    const name = await theirs.fresh({ a: 'TEXT' });
    await refuseComments(service, other);
    const before = await snapshot(other);
    expect((await theirs.add(name, { name: 'b', type: 'TEXT', comment: 'x' })).status).toBeGreaterThanOrEqual(400);
    const all = { new_name: 'b', new_type: 'JSONB', comment: 'x' };
    expect((await theirs.alter(name, 'a', all)).status).toBeGreaterThanOrEqual(400);
    expect(await snapshot(other)).toEqual(before);
  });

  it('tables from SQL in names and comments', async () => {
    const other = await service.project();
    const theirs = new Tables(other);
    await other.table('kept', { a: 'TEXT' });
    await theirs.insert('kept', [{ a: 'still here' }]);
    const before = await snapshot(other);
    for (const attack of [
      `x" TEXT; DROP TABLE kept; --`,
      `a'; DROP TABLE kept; --`,
      `a\\'; DROP TABLE kept; --`,
      `a" TYPE text USING (SELECT 'x'); --`,
      `$$; DROP TABLE kept; $$`,
    ]) {
      for (const response of [
        await theirs.add('kept', { name: attack, type: 'TEXT' }),
        await theirs.add('kept', { name: 'b', type: attack }),
        await theirs.alter('kept', 'a', { new_name: attack }),
        await theirs.alter('kept', 'a', { new_type: attack }),
        await theirs.alter('kept', attack, { comment: 'x' }),
        await other.call('DELETE', columnPath('kept', attack)),
        await other.call('POST', `${tablePath(attack)}/column`, {
          body: { name: 'b', type: 'TEXT' },
        }),
      ]) {
        expect([400, 404]).toContain(response.status);
      }
      expect(await snapshot(other)).toEqual(before);
      expect((await theirs.alter('kept', 'a', { comment: attack })).body.column).toMatchObject({
        comment: attack,
      });
      await theirs.alter('kept', 'a', { comment: null });
      expect(await snapshot(other)).toEqual(before);
    }
  });

  it('projects from each other: a change does not affect the same column of another project', async () => {
    const [one, two] = [await service.project(), await service.project()];
    for (const by of [one, two]) await by.table('orders', { a: 'TEXT' });
    const before = await snapshot(two);
    expect(
      (await new Tables(one).alter('orders', 'a', { new_name: 'b', new_type: 'JSONB', comment: 'x' })).status,
    ).toBe(200);
    expect((await new Tables(one).add('orders', { name: 'c', type: 'TEXT' })).status).toBe(201);
    expect(await snapshot(two)).toEqual(before);
    expect((await two.call('DELETE', columnPath('orders', 'a'))).status).toBe(200);
    expect(await columnTypes(one, 'orders')).toEqual({ id: 'uuid', b: 'JSONB', c: 'TEXT' });
  });

  it('one name: if many requests add it at once, in two cases and on two instances, one succeeds', async () => {
    const name = await tables.fresh({ a: 'TEXT' });
    const second = await startService(service.config, pino({ level: 'silent' }));
    try {
      const adding = Array.from({ length: 8 }, async (_, i) => {
        const response = await fetch(`${i % 2 === 0 ? service.url : second.url}${tablePath(name)}/column`, {
          method: 'POST',
          headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ name: i < 4 ? 'race' : 'RACE', type: 'TEXT' }),
        });
        return ((await response.json()) as { error?: string }).error ?? response.status;
      });
      const responses = await Promise.all(adding);
      expect(responses.filter((response) => response === 201)).toHaveLength(1);
      expect(responses.filter((response) => response === 'column_exists')).toHaveLength(7);
    } finally {
      await second.close();
    }
  });

  it('the caller from waiting: if another transaction uses the table, a change is refused after 2 s', async () => {
    const attempts = [
      (name: string) => tables.add(name, { name: 'b', type: 'TEXT' }),
      (name: string) => tables.alter(name, 'a', { new_name: 'b' }),
      (name: string) => tables.alter(name, 'a', { new_type: 'JSONB' }),
      (name: string) => tables.dropColumn(name, 'a'),
    ];
    // A table for each: they all wait at once.
    const names: string[] = [];
    while (names.length < attempts.length) names.push(await tables.fresh({ a: 'TEXT' }));
    await inDatabase(service, project, async (client) => {
      await client.query('BEGIN');
      // A mere reader is enough: the change needs the table for itself.
      for (const name of names) await client.query(`SELECT * FROM data.${name}`);
      const started = performance.now();
      const responses = await Promise.all(attempts.map((attempt, i) => attempt(names[i] ?? '')));
      expect(performance.now() - started).toBeLessThan(15_000);
      for (const response of responses) {
        expectFailure(response, 503, 'table_busy');
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      }
      await client.query('ROLLBACK');
    });
    for (const name of names) {
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', a: 'TEXT' });
      expect((await tables.add(name, { name: 'b', type: 'TEXT' })).status).toBe(201);
    }
  });

  it('the table from a change that would lock it for long: the change is rolled back, and the table is free', async () => {
    const impatient = await startTestService({ 'schema-hold-ms': '700' }, server);
    try {
      const own = await impatient.project();
      await own.table('slow', { a: 'TEXT', b: 'TEXT' });
      // An index over an expression is built anew when the table is rewritten; its function gets slow later.
      await own.rows(`CREATE FUNCTION dawdle(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
        CREATE INDEX ON slow (dawdle(b))`);
      await new Tables(own).insert(
        'slow',
        Array.from({ length: 100 }, () => ({ a: '1', b: 'x' })),
      );
      await own.rows(`CREATE OR REPLACE FUNCTION dawdle(text) RETURNS text IMMUTABLE LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_sleep(0.1); RETURN $1; END'`);
      const before = await snapshot(own);
      const started = performance.now();
      const response = await new Tables(own).alter('slow', 'a', { new_type: 'INTEGER', comment: 'x' });
      expectFailure(response, 503, 'table_busy');
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(performance.now() - started).toBeLessThan(8_000);
      expect(await snapshot(own)).toEqual(before);
      expect((await new Tables(own).alter('slow', 'a', { comment: 'x' })).status).toBe(200);
    } finally {
      await impatient.close();
    }
  });
});
