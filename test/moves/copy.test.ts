/** Copies a project with one of everything to a server of the same major version and to one of a later version. */
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { differentContents, summaryOf } from '../../src/moves/verify.js';
import type { Session } from '../../src/pg/index.js';
import { withServiceSession } from '../../src/tenancy/service-pool.js';
import { copyDatabase, CopyDiffers, type CopyProgress } from '../../src/moves/copy.js';
import { entriesOf } from '../../src/backup/logical/dump-entries.js';
import { serverRefOf } from '../../src/tenancy/control/server-rows.js';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import type { Placement } from '../../src/tenancy/placement.js';
import type { Tenancy } from '../../src/tenancy/tenancy.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { description, EVERYTHING } from '../support/everything.js';
import { connected, testServers } from '../support/postgres.js';
import { inProject, startTestService, type TestProject, type TestService } from '../support/service.js';

/** What looks like a part of a dump within a part of it. */
const MISLEADING = `CREATE FUNCTION misleading() RETURNS text LANGUAGE sql AS $$ SELECT '
\\restrict abc
--
-- Name: x; Type: ACL; Schema: data; Owner: -
--

\\unrestrict abc' $$;
COMMENT ON FUNCTION misleading() IS E'a \\' b
--
-- Name: y; Type: TABLE; Schema: data; Owner: -
--
\\\\restrict me'`;

let other: AddedServer;
beforeAll(async () => {
  other = await startAddedServer(18);
});
afterAll(() => other.close());

/**
 * Without the schemas, which are the service's, whose role has another name there. Postgres 17 has the privilege
 * MAINTAIN (m), and 18 shows NOT NULL among the constraints. Later ones name the table of a column in fewer places.
 */
async function described(client: pg.Client): Promise<string> {
  const { constraints, schemas, ...all } = (await description(client)) as {
    constraints: { def: string }[];
    schemas: unknown;
  };
  expect(schemas).toHaveLength(1);
  const rest = { ...all, constraints: constraints.filter(({ def }) => !def.startsWith('NOT NULL')) };
  return JSON.stringify(rest, null, 2).replaceAll('=arwdDxtm/', '=arwdDxt/').replaceAll('people.', '');
}

describe.each(testServers().map((server) => ({ server, major: server.major })))(
  'from Postgres $major',
  ({ server }) => {
    let service: TestService;
    let project: TestProject;
    let source: { tenancy: Tenancy; placement: Placement };
    let target: { tenancy: Tenancy; placement: Placement };
    beforeAll(async () => {
      service = await startTestService({ extensions: 'citext' }, server);
      project = await service.project('full');
      const admin = (await service.engine.tokens.create(null)).token;
      const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
      const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
      if (added.status !== 201) throw new Error(added.text);
      const { placement } = await service.engine.projects.get('full');
      source = { tenancy: service.engine.servers.tenancyOf(placement), placement };
      const row = await service.engine.control.servers.get('eu-1');
      if (row === null) throw new Error('It was added');
      const tenancy = service.engine.servers.tenancyOf(serverRefOf(row));
      target = { tenancy, placement: await tenancy.newPlacement() };
    });
    afterAll(() => service.close());

    /** Makes the target anew. @param prepare what its superuser does there before */
    const copy = async (more: Partial<Parameters<typeof copyDatabase>[0]> = {}, prepare = '') => {
      await target.tenancy.drop(target.placement);
      await target.tenancy.create(target.placement);
      await there((client) => client.query(prepare));
      return copyDatabase({ source, target, verify: 'full', signal: NEVER_ABORTED, ...more });
    };

    const there = <T>(work: Parameters<typeof connected<T>>[1]): Promise<T> =>
      connected({ ...other.connection, database: target.placement.database }, work);

    it('copies everything unchanged', async () => {
      for (const sql of EVERYTHING) {
        // The target's role is no superuser, and so gives no project schemas of its own.
        if (!/CREATE SCHEMA/.test(sql)) await project.rows(sql);
      }
      await project.rows(MISLEADING);
      await project.rows('CREATE UNLOGGED TABLE fleeting (a integer); INSERT INTO fleeting VALUES (1), (1)');
      await project.rows(`CREATE TABLE named (name citext UNIQUE); INSERT INTO named VALUES ('Ada')`);
      await project.rows(
        `COMMENT ON LARGE OBJECT 4711 IS 'it''s large'; GRANT SELECT ON LARGE OBJECT 4711 TO PUBLIC;
       SELECT lo_from_bytea(4712, decode(repeat('ab', 3000000), 'hex'))`,
      );
      const key = { headers: { 'idempotency-key': 'first' } };
      const inserted = await project.call('POST', '/api/cdp/data/empty', { body: [{ a: 1, b: 'x' }], ...key });
      expect(inserted.status, inserted.text).toBe(201);
      const progress: CopyProgress[] = [];
      const { leftOut } = await copy({ onProgress: (one) => progress.push(one) });
      expect(leftOut).toEqual([]);
      const { rows } = await there((client) => client.query('SELECT count(*)::int AS n FROM data.big'));
      expect(rows).toEqual([{ n: 100_000 }]);
      expect(progress).toContainEqual(expect.objectContaining({ table: 'big', rows: 100_000 }));
      const [before, after] = [await inProject(service, source.placement, described), await there(described)];
      expect(after).toEqual(before);
    });

    it('detects a sequence at another value and a large object with other contents', async () => {
      const contents = () => {
        const { tenancy, placement } = source;
        const look = (session: Session) => summaryOf(session, placement, { verify: 'full' });
        return withServiceSession(tenancy.serverOf(placement).address, placement.database, look);
      };
      const before = await contents();
      expect(differentContents(before, await contents())).toEqual([]);
      await project.rows(`SELECT nextval('tickets'), lo_put(4712, 2500000, 'x')`);
      expect(differentContents(before, await contents())).toEqual([
        'data.tickets (SEQUENCE): differs',
        'large object 4712: differs',
      ]);
    });

    it.each([
      ['left out', 'RETURN NULL', 'big: 100000 rows before, and 99999 after'],
      ['changed', `NEW.payload := 'another'; RETURN NEW`, 'big: the contents of its rows differ'],
    ])('detects a row that is %s on the way', async (_how, change, difference) => {
      const change5 = `CREATE SCHEMA meddling; GRANT USAGE ON SCHEMA meddling TO PUBLIC;
      CREATE FUNCTION meddling.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.id = 5 THEN ${change}; END IF; RETURN NEW; END $$;
      CREATE FUNCTION meddling.meddle() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        IF to_regclass('data.big') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'meddling') THEN
          CREATE TRIGGER meddling BEFORE INSERT ON data.big FOR EACH ROW EXECUTE FUNCTION meddling.change();
        END IF; END $$;
      CREATE EVENT TRIGGER meddling ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION meddling.meddle()`;
      const error: unknown = await copy({}, change5).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(CopyDiffers);
      expect((error as CopyDiffers).differences).toContain(difference);
    });

    it('leaves no work running after an abort', async () => {
      const abort = new AbortController();
      const reason = new Error('enough');
      const copied = copy({
        signal: abort.signal,
        onProgress: () => abort.abort(reason),
      });
      await expect(copied).rejects.toThrow();
      const sessions = await connected(other.connection, (client) =>
        client.query('SELECT 1 FROM pg_stat_activity WHERE usename = $1', [target.placement.writer]),
      );
      expect(sessions.rowCount).toBe(0);
      await target.tenancy.drop(target.placement);
    });
  },
);

it('does not mistake quoted text for an entry of a dump', () => {
  const header = (name: string, kind: string) => `--\n-- Name: ${name}; Type: ${kind}; Schema: data; Owner: -\n--\n\n`;
  const texts = [
    `CREATE FUNCTION f() AS $_$ SELECT '${header('x', 'ACL')}' $_$;`,
    `COMMENT ON TABLE t IS 'it''s ${header('y', 'TABLE')}';`,
    `CREATE VIEW v AS SELECT E'\\'${header('z', 'TABLE')}' AS "a""${header('w', 'TABLE')}";`,
  ];
  const dump = texts
    .map((text, i) => `${header(`n${i}; Type: x; Schema: y; Owner: z`, 'FUNCTION')}${text}\n\n`)
    .join('');
  expect(
    entriesOf(`SET x = 1;\n${dump}--\n-- PostgreSQL database dump complete\n--\n`).map(({ text }) =>
      text.split('\n\n\n')[0]?.trim(),
    ),
  ).toHaveLength(3);
});
