/**
 * What creating, reading and dropping tables must never do: take effect in part, harm others, or wait for long
 * (contract C6).
 */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service.js';
import { embeddedServer } from '../../support/postgres.js';
import { columnTypes, snapshot, tableNames } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { inDatabase, refuseComments, TABLE, Tables } from '../../support/tables.js';

const TEXT = [{ name: 'a', type: 'TEXT' }];

describe.each([embeddedServer()])('a table request protects on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  it('atomicity: a table whose comment fails is not created', async () => {
    const other = await service.project();
    const theirs = new Tables(other);
    await refuseComments(service, other);
    const columns = [{ name: 'a', type: 'TEXT', comment: 'x' }];
    const response = await theirs.create({ table_name: 'half', columns });
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(await tableNames(other)).toEqual([]);
    expect((await theirs.create({ table_name: 'half', columns: TEXT })).status).toBe(201);
  });

  it('one name: if many requests create it at once, in two cases and on two instances, one succeeds', async () => {
    const second = await startService(service.config, pino({ level: 'silent' }));
    try {
      const creating = Array.from({ length: 8 }, async (_, i) => {
        const response = await fetch((i % 2 === 0 ? service.url : second.url) + TABLE, {
          method: 'POST',
          headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ table_name: i < 4 ? 'race' : 'Race', columns: TEXT }),
        });
        return { status: response.status, body: (await response.json()) as { error?: string } };
      });
      const responses = await Promise.all(creating);
      expect(responses.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
      expect(new Set(responses.map(({ body }) => body.error))).toEqual(new Set([undefined, 'table_exists']));
    } finally {
      await second.close();
    }
    expect((await tableNames(project)).filter((name) => name.toLowerCase() === 'race')).toHaveLength(1);
  });

  it('tables from SQL in names and comments', async () => {
    const other = await service.project();
    const theirs = new Tables(other);
    await other.table('kept', { a: 'TEXT' });
    await other.rows(`INSERT INTO kept (a) VALUES ('still here')`);
    const before = await snapshot(other);
    const attacks = [
      `x"; DROP TABLE kept; --`,
      `x'; DROP TABLE kept; --`,
      `x\\'; DROP TABLE kept; --`,
      `$$; DROP TABLE kept; --`,
      `kept"; DELETE FROM "kept`,
      `a') ; DROP TABLE data.kept; COMMIT; --`,
      `\\`,
      `E'\\'; DROP TABLE kept; --`,
    ];
    for (const attack of attacks) {
      const path = encodeURIComponent(attack);
      for (const response of [
        await theirs.create({ table_name: attack, columns: TEXT }),
        await theirs.create({ table_name: 'fresh', columns: [{ name: attack, type: 'TEXT' }] }),
        await theirs.create({ table_name: 'fresh', columns: [{ name: 'a', type: attack }] }),
        await other.call('GET', `${TABLE}/${path}`),
        await other.call('DELETE', `${TABLE}/${path}`),
      ]) {
        expect(response.status).toBeGreaterThanOrEqual(400);
        expect(response.status).toBeLessThan(500);
      }
      expect(await snapshot(other)).toEqual(before);
      const columns = [{ name: 'a', type: 'TEXT', comment: attack }];
      expect((await theirs.create({ table_name: 'noted', comment: attack, columns })).status).toBe(201);
      expect(await theirs.read('noted')).toMatchObject({
        comment: attack,
        columns: [{}, { comment: attack }],
      });
      expect((await other.call('DELETE', `${TABLE}/noted`)).status).toBe(200);
      expect(await snapshot(other)).toEqual(before);
    }
  });

  it('itself from functions, operators and types that a project defines', async () => {
    const other = await service.project();
    const theirs = new Tables(other);
    await other.rows(`
      CREATE FUNCTION lower(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
      CREATE FUNCTION count(text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
      CREATE FUNCTION uuid_v7() RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
      CREATE FUNCTION trap(name, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
      CREATE OPERATOR = (LEFTARG = name, RIGHTARG = text, FUNCTION = trap);
      CREATE DOMAIN "text" AS integer;
      CREATE DOMAIN "uuid" AS integer;
      CREATE DOMAIN int8 AS boolean`);
    expect(
      (await theirs.create({ table_name: 'safe', columns: [...TEXT, { name: 'n', type: 'INTEGER' }] })).status,
    ).toBe(201);
    expect(await columnTypes(other, 'safe')).toEqual({ id: 'uuid', a: 'TEXT', n: 'INTEGER' });
    expect((await other.call('POST', '/api/cdp/data/safe', { body: [{ a: 'x', n: 1 }] })).status).toBe(201);
    expect((await other.call('DELETE', `${TABLE}/safe`)).status).toBe(200);
  });

  it('projects from each other: the same names can exist side by side, and nothing of the other is visible', async () => {
    const [one, two] = [await service.project(), await service.project()];
    await new Tables(one).create({ table_name: 'orders', comment: 'of one', columns: [{ name: 'a', type: 'TEXT' }] });
    await new Tables(two).create({
      table_name: 'orders',
      comment: 'of two',
      columns: [{ name: 'b', type: 'INTEGER' }],
    });
    await one.table('secret_plans', { a: 'TEXT' });
    expect(await new Tables(one).read('orders')).toMatchObject({ comment: 'of one' });
    expect(await new Tables(two).read('orders')).toMatchObject({ comment: 'of two' });
    expect(await tableNames(two)).toEqual(['orders']);
    const error = expectFailure(await two.call('GET', `${TABLE}/secret_plan`), 404, 'table_not_found');
    expect(JSON.stringify(error)).not.toContain('secret_plans');
    expect((await two.call('DELETE', `${TABLE}/orders`)).status).toBe(200);
    expect(await columnTypes(one, 'orders')).toEqual({ id: 'uuid', a: 'TEXT' });
  });

  it('the caller from waiting: a locked table is busy after 2 s, and reading the schema does not wait', async () => {
    await project.table('locked', { a: 'TEXT' });
    await inDatabase(service, project, async (client) => {
      await client.query('BEGIN');
      await client.query('LOCK TABLE data.locked IN ACCESS EXCLUSIVE MODE');
      // It is locked until the end: whoever waited for it would be refused.
      expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
      expect((await project.call('GET', `${TABLE}/locked`)).status).toBe(200);

      const dropping = performance.now();
      const response = await tables.drop('locked');
      expectFailure(response, 503, 'table_busy');
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(performance.now() - dropping).toBeGreaterThan(1_500);
      expect(performance.now() - dropping).toBeLessThan(20_000);
      await client.query('ROLLBACK');
    });
    expect(await columnTypes(project, 'locked')).toEqual({ id: 'uuid', a: 'TEXT' });
    expect((await tables.drop('locked')).status).toBe(200);
  });
});
