/**
 * The check that precedes a fast insert (`schemaUnchanged` in catalog.ts): it relies on Postgres planning a prepared
 * statement again if another session has changed something about its table. It must detect every kind of change.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { schemaUnchanged, tableToWrite } from '../../../src/engine/catalog/catalog.js';
import { describedBy } from '../../support/catalog.js';
import { testServers } from '../../support/postgres.js';
import { onServer, startTestService, type TestProject, type TestService } from '../../support/service.js';

/** SQL on the table `T`, which has columns `n` and `s`. */
const CHANGES: Readonly<Record<string, string>> = {
  'a column more': 'ALTER TABLE T ADD COLUMN more bigint',
  'a column less': 'ALTER TABLE T DROP COLUMN s',
  'another name of a column': 'ALTER TABLE T RENAME COLUMN s TO z',
  'another type, rewritten': 'ALTER TABLE T ALTER COLUMN n TYPE text',
  'another type, not rewritten': 'ALTER TABLE T ALTER COLUMN s TYPE varchar',
  'NOT NULL': 'ALTER TABLE T ALTER COLUMN s SET NOT NULL',
  'a default': "ALTER TABLE T ALTER COLUMN s SET DEFAULT 'x'",
  'no default of the id': 'ALTER TABLE T ALTER COLUMN id DROP DEFAULT',
  'an identity': 'ALTER TABLE T ALTER COLUMN n SET NOT NULL, ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY',
  'a check': 'ALTER TABLE T ADD CHECK (n > 0) NOT VALID',
  'a foreign key': 'CREATE TABLE T_other (n bigint UNIQUE); ALTER TABLE T ADD FOREIGN KEY (n) REFERENCES T_other (n)',
  'a trigger': `CREATE FUNCTION T_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL;END';
    CREATE TRIGGER g BEFORE INSERT ON T FOR EACH ROW EXECUTE FUNCTION T_f()`,
  'a rule': 'CREATE RULE r AS ON INSERT TO T DO INSTEAD NOTHING',
  'row level security': 'ALTER TABLE T ENABLE ROW LEVEL SECURITY',
  'an index': 'CREATE INDEX ON T (n)',
  'an index on an expression, without a lock': 'CREATE INDEX CONCURRENTLY ON T ((n + 1))',
  'no primary key': 'ALTER TABLE T DROP CONSTRAINT T_pkey',
  'another table of the name': 'ALTER TABLE T RENAME TO T_old; CREATE TABLE T (LIKE T_old INCLUDING ALL)',
  'the same table made anew': 'CREATE TABLE T_new (LIKE T INCLUDING ALL); DROP TABLE T; ALTER TABLE T_new RENAME TO T',
  'another schema of the name':
    'ALTER SCHEMA data RENAME TO T_data; CREATE SCHEMA data; CREATE TABLE data.T (LIKE T_data.T INCLUDING ALL)',
};

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let database: string;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    database = (await service.engine.projects.list())[0]?.placement.database ?? '';
  });
  afterAll(() => service.close());

  const tables = new Map<string, string>();
  const tableOf = async (name: string): Promise<string> => {
    const table = `t${tables.size}`;
    tables.set(name, table);
    const columns = [
      { name: 'n', type: 'INTEGER' },
      { name: 's', type: 'TEXT' },
    ];
    await project.call('POST', '/api/cdp/schema/table', { body: { table_name: table, columns } });
    return table;
  };

  /** What the check of `table` says now, in a session that keeps its plan. */
  const checkIn = async (client: pg.Client, table: string): Promise<() => Promise<string>> => {
    const shape = await describedBy(client, tableToWrite('data', table));
    if (shape === undefined) throw new Error(`There is no table ${table}`);
    return async () => {
      await client.query(`BEGIN; LOCK TABLE data.${table} IN ROW EXCLUSIVE MODE`);
      try {
        await client.query({ name: `check ${table}`, text: schemaUnchanged(shape).text });
        return 'the same';
      } catch (error) {
        return error instanceof pg.DatabaseError && error.code === '22012' ? 'another' : String(error);
      } finally {
        await client.query('ROLLBACK');
      }
    };
  };

  describe('a prepared check', () => {
    it('still holds while only rows have changed', async () => {
      const table = await tableOf('rows');
      await onServer(
        server,
        async (client) => {
          const check = await checkIn(client, table);
          for (const work of [
            'INSERT INTO data.T (n) SELECT generate_series(1, 1000)',
            'ANALYZE data.T',
            'VACUUM data.T',
          ]) {
            await onServer(server, (other) => other.query(work.replace('data.T', `data.${table}`)), database);
            expect(await check()).toBe('the same');
          }
        },
        database,
      );
    });

    it.each(Object.keys(CHANGES))('detects %s', async (name) => {
      const table = await tableOf(name);
      await onServer(
        server,
        async (client) => {
          const check = await checkIn(client, table);
          for (let i = 0; i < 3; i++) expect(await check()).toBe('the same');
          await onServer(
            server,
            async (other) => {
              await other.query('SET search_path = data');
              // One statement at a time: CREATE INDEX CONCURRENTLY stands alone.
              for (const change of (CHANGES[name] as string).replaceAll(/\bT(?=_|\b)/g, table).split(/;\s+/)) {
                await other.query(change);
              }
            },
            database,
          );
          expect(await check()).toBe('another');
        },
        database,
      );
    });
  });
});
