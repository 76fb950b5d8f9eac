/**
 * A project inspects its own objects: every view of information_schema, and the questions that psql, ORMs and desktop
 * tools ask. Each is answered, for the writer and the reader, and shows the project's own objects.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Placement } from '../../src/tenancy/placement.js';
import { testServers } from '../support/postgres.js';
import {
  inProject,
  startOwnService,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { type Question, questions, statementsOf } from './introspection/questions.js';

/** Views of information_schema that show a table to whoever may read it, and those that show it to its owner alone. */
const WITH_TABLE = ['columns', 'tables', 'table_privileges', 'column_privileges', 'role_table_grants'];
const TO_OWNER = ['table_constraints', 'constraint_column_usage', 'key_column_usage', 'constraint_table_usage'];

/** Questions that a server by address refuses, since what it shares is closed (src/tenancy/own-database-tenancy.sql). */
const CLOSED: Record<string, string[]> = {
  'psql.sql': ['\\d orders, the policies', '\\dp', '\\drg', '\\du', '\\du+', '\\l', '\\l+'],
  'orms.sql': [
    'Drizzle-kit, roles',
    'Prisma migrate, whether the database is there',
    "Rails, the schema dumper's encoding, collation and settings",
  ],
  'tools.sql': [
    'DBeaver, databases',
    'DBeaver, locks',
    'DBeaver, roles',
    'DBeaver, sessions',
    'DBeaver, tablespaces',
    'DataGrip, databases',
    'DataGrip, roles and their groups',
    'JDBC getSchemas and getCatalogs',
    'JDBC getTablePrivileges',
    'PostgREST, settings of roles',
    'pgAdmin, at the connection',
    'pgAdmin, how the connection is protected',
    'pgAdmin, tables',
    'pgAdmin, the dashboard',
    'pgAdmin, the tree of databases',
    'pgAdmin, who I am',
    'pgAdmin, who depends on a table',
  ],
};

const TENANCIES = [
  { where: 'a server of its own', start: () => startOwnService(), closed: {} as typeof CLOSED },
  ...testServers().map((server) => ({
    where: `a shared Postgres ${server.major}`,
    start: () => startTestService({}, server),
    closed: CLOSED,
  })),
];

describe.each(TENANCIES)('on $where', ({ start, closed }) => {
  let service: TestService;
  let project: TestProject;
  let placement: Placement;
  let readToken: string;

  beforeAll(async () => {
    service = await start();
    project = await service.project();
    // Another one, whose objects nobody asks for.
    await service.project();
    placement = (await service.engine.projects.get(project.name)).placement;
    await project.table('customers', { email: 'TEXT' });
    await project.rows(statementsOf('own-objects.sql'));
    readToken = await project.tokenWith('sql:read');
  });
  afterAll(() => service.close());

  const tokenOf = (role: 'writer' | 'reader'): string => (role === 'reader' ? readToken : project.token);
  const ask = (sql: string, token: string): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/sql', { token, body: { sql, max_rows: 100_000 } });

  /** The strings of a question that its response lacks; the whole response where it is a refusal. */
  async function lacks({ shows, showsOwner, sql }: Question, role: 'writer' | 'reader'): Promise<string[]> {
    const response = await ask(sql, tokenOf(role));
    if (response.status !== 200) return [response.text];
    const { writer, reader, database } = placement;
    const names: Record<string, string> = { writer, reader, database, role: placement[role] };
    const own = (text: string): string => text.replace(/\{(\w+)\}/g, (_, name: string) => names[name] ?? name);
    return [...shows, ...(role === 'writer' ? showsOwner : [])]
      .map(own)
      .filter((text) => !response.text.includes(text));
  }

  describe.each(['writer', 'reader'] as const)('the %s gets a response from', (role) => {
    it.each(['psql.sql', 'orms.sql', 'tools.sql'])('each question of %s', async (file) => {
      const lacking: Record<string, string[]> = {};
      for (const question of questions(file)) {
        const missing = await lacks(question, role);
        if (missing.length > 0) lacking[question.ask] = missing;
      }
      const open = Object.entries(lacking).filter(([ask]) => closed[file]?.includes(ask) !== true);
      expect(Object.fromEntries(open)).toEqual({});
      expect(Object.keys(lacking).sort()).toEqual(closed[file] ?? []);
    });

    // Postgres itself gives those that are left out to nobody.
    it('each view of information_schema', async () => {
      const { rows } = await inProject(service, placement, (client) =>
        client.query<{ name: string }>(
          `SELECT table_name AS name FROM information_schema.views WHERE table_schema = 'information_schema'
             AND table_name NOT LIKE '\\_pg\\_%' AND table_name <> 'transforms' ORDER BY 1`,
        ),
      );
      expect(rows.length).toBeGreaterThan(55);
      const shown = role === 'writer' ? [...WITH_TABLE, ...TO_OWNER] : WITH_TABLE;
      const responses = await Promise.all(
        rows.map(async ({ name }) => ({
          name,
          response: await ask(`SELECT * FROM information_schema.${name}`, tokenOf(role)),
        })),
      );
      const lacking = responses
        .filter(
          ({ name, response: { status, text } }) =>
            status !== 200 || (shown.includes(name) && !text.includes('customers')),
        )
        .map(({ name, response }) => [name, response.text.slice(0, 500)]);
      expect(lacking).toEqual([]);
    });
  });
});
