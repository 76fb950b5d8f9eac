/**
 * Which tables make an insert run code of the project, so that its session must be reset afterward. A reset that is
 * not needed costs time; a missing reset exposes one request's session to the next.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tableByName, tableToWrite } from '../../../src/engine/catalog/catalog.js';
import type { Statement } from '../../../src/pg/sql-tag.js';
import { describedBy } from '../../support/catalog.js';
import { testServers } from '../../support/postgres.js';
import { onServer, startTestService, type TestService } from '../../support/service.js';

/**
 * SQL on the table `T`, which has `id`, `n`, `s`, `made` (bigint, text, timestamptz): what runs nothing of the
 * project's.
 */
const HARMLESS: readonly string[] = [
  'CREATE UNIQUE INDEX ON T (n)',
  'ALTER TABLE T ADD CHECK (n >= 0 AND n IS NOT NULL)',
  "ALTER TABLE T ADD CHECK (s IN ('new', 'paid') OR s ~ '^x' OR char_length(s) < 10)",
  "ALTER TABLE T ADD v varchar(9) CHECK (v = ANY (ARRAY['a', 'b']::varchar[]))",
  'ALTER TABLE T ADD CHECK (CASE WHEN n > 1 THEN COALESCE(s, lower(s)) IS DISTINCT FROM NULLIF(s, upper(s)) ELSE true END)',
  'ALTER TABLE T ADD CHECK (n BETWEEN 1 AND GREATEST(2, n % 7))',
  "ALTER TABLE T ADD d date DEFAULT CURRENT_DATE, ADD t timestamptz DEFAULT now() + interval '30 days'",
  'ALTER TABLE T ADD u uuid DEFAULT gen_random_uuid(), ADD r float8 DEFAULT random(), ADD c timestamptz DEFAULT clock_timestamp()',
  "ALTER TABLE T ALTER s SET DEFAULT 'new', ALTER n SET DEFAULT 0, ADD j jsonb DEFAULT '{}', ADD a text[] DEFAULT '{}'",
  'ALTER TABLE T ADD twice bigint GENERATED ALWAYS AS (n * 2) STORED',
  'CREATE INDEX ON T (lower(s)) WHERE n > 0',
  "ALTER TABLE T ADD CHECK (made > made - interval '1 day' AND made::date > '2020-01-01')",
  "CREATE TYPE mood AS ENUM ('sad'); ALTER TABLE T ADD m mood",
];

/** What does, or might. */
const HARMFUL: readonly string[] = [
  "ALTER TABLE T ADD x text DEFAULT set_config('work_mem', '1MB', false)",
  'ALTER TABLE T ADD CHECK (pg_advisory_lock(n) IS NULL)',
  'ALTER TABLE T ADD k bigserial',
  'ALTER TABLE T ADD CHECK (own(n))',
  'ALTER TABLE T ADD x bigint DEFAULT owned()',
  'CREATE INDEX ON T (own(n))',
  'CREATE INDEX ON T (n) WHERE own(n)',
  'ALTER TABLE T ADD x boolean GENERATED ALWAYS AS (own(n)) STORED',
  'CREATE OPERATOR === (FUNCTION = owns, LEFTARG = bigint, RIGHTARG = bigint); ALTER TABLE T ADD CHECK (n === 1)',
  'CREATE DOMAIN fit AS bigint CHECK (own(VALUE)); ALTER TABLE T ADD CHECK (n::fit > 0)',
  'CREATE DOMAIN fit AS bigint CHECK (own(VALUE)); ALTER TABLE T ADD f fit',
  'CREATE DOMAIN fit AS bigint CHECK (own(VALUE)); CREATE TYPE pair AS (f fit); ALTER TABLE T ADD CHECK (s::pair IS NOT NULL)',
  "CREATE DOMAIN fit AS bigint CHECK (own(VALUE)); ALTER TABLE T ADD CHECK (pg_catalog.jsonb_typeof(to_jsonb(s)) = 'x')",
  "CREATE VIEW seen AS SELECT owned(); ALTER TABLE T ADD CHECK (table_to_xml(s, true, true, '') IS NULL)",
  "CREATE TYPE mood AS ENUM ('sad'); ALTER TABLE T ADD m mood, ADD CHECK (to_jsonb(m) IS NOT NULL)",
  "CREATE TYPE mood AS ENUM ('sad'); ALTER TABLE T ADD m mood, ADD CHECK (n > 0)",
  'CREATE TYPE pair AS (a bigint); ALTER TABLE T ADD p pair',
  'CREATE TABLE other (n bigint UNIQUE); ALTER TABLE T ADD FOREIGN KEY (n) REFERENCES other (n)',
  'ALTER TABLE T ADD EXCLUDE (n WITH =)',
  `CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW;END';
    CREATE TRIGGER g AFTER INSERT ON T FOR EACH ROW EXECUTE FUNCTION fires()`,
];

const FUNCTIONS = `
  CREATE FUNCTION own(bigint) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN true;
  CREATE FUNCTION owns(bigint, bigint) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN true;
  CREATE FUNCTION owned() RETURNS bigint LANGUAGE sql RETURN 1`;

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let database: string;
  beforeAll(async () => {
    service = await startTestService({}, server);
    const project = await service.project();
    const columns = Object.entries({ n: 'INTEGER', s: 'TEXT', made: 'TIMESTAMP' });
    const body = { table_name: 't', columns: columns.map(([name, type]) => ({ name, type })) };
    await project.call('POST', '/api/cdp/schema/table', { body });
    database = (await service.engine.projects.list())[0]?.placement.database ?? '';
  });
  afterAll(() => service.close());

  /** What `read` says of the table after `change`, which is taken back. */
  const runsCode = (change: string, read: (schema: string, table: string) => Statement): Promise<boolean | undefined> =>
    onServer(
      server,
      async (client) => {
        await client.query(`BEGIN; SET search_path = data; ${FUNCTIONS}; ${change.replaceAll(/\bT\b/g, 't')}`);
        return (await describedBy(client, read('data', 't')))?.runsProjectCode;
      },
      database,
    );

  it.each(HARMLESS)('needs no reset: %s', async (change) => {
    expect(await runsCode(change, tableToWrite)).toBe(false);
  });

  it.each(HARMFUL)('resets: %s', async (change) => {
    expect(await runsCode(change, tableToWrite)).toBe(true);
  });

  it('does not trust an expression while a statement changes the table, which evaluates it again', async () => {
    expect(await runsCode('ALTER TABLE T ADD CHECK (n >= 0)', tableByName)).toBe(true);
    expect(await runsCode('SELECT 1', tableByName)).toBe(false);
  });
});
