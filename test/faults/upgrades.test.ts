/** Many instances at once take over what earlier versions left in Postgres; they refuse what a newer version left. */
import { readdirSync, readFileSync } from 'node:fs';
import { pino } from 'pino';
import { afterAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/cli/load-config.js';
import { Credentials } from '../../src/tenancy/credentials.js';
import { newestVersion, readMigrations } from '../../src/tenancy/migrations/migrate.js';
import { type Service, startService } from '../../src/service.js';
import { clearAway, dropDatabase, type TestServer, testServers } from '../support/postgres.js';
import { runProgram } from '../support/program.js';
import { call, onServer, startTestService } from '../support/service.js';

/** As `releases/dump.mjs` writes them. */
interface Release {
  readonly control: number;
  readonly project: number;
  readonly token: string;
  readonly record: Record<string, unknown>;
  readonly database: string;
  readonly roles: { group: string; writer: string; reader: string };
  readonly memberships: readonly string[];
  readonly controlSql: readonly string[];
  readonly projectSql: readonly string[];
}

const folder = new URL('releases/', import.meta.url);
const RELEASES = readdirSync(folder)
  .filter((file) => file.endsWith('.json'))
  .map((file) => ({ name: file, release: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Release }));

const INSTANCES = 8;

const SECRET = 's'.repeat(32);

/** The dumps are of Postgres 15, and hold what hardening makes there: another major does not read them. */
const SERVERS = testServers().filter(({ major }) => major === 15);

const CASES = SERVERS.flatMap((server) => RELEASES.map((release) => ({ server, ...release })));

const ask = async <Row extends object>(server: TestServer, text: string, database?: string): Promise<Row[]> =>
  onServer(server, async (client) => (await client.query<Row>(text)).rows, database);

const versions = async (server: TestServer, schema: string, database: string) =>
  (await ask<{ version: number }>(server, `SELECT version FROM ${schema}.migrations ORDER BY 1`, database)).map(
    ({ version }) => version,
  );

const urlOf = ({ connection: { user, password, host, port } }: TestServer, database: string): string =>
  `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;

const drops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const drop of drops.splice(0).reverse()) await drop();
});

/** Loads a dump under a control database of its own. @returns its name */
async function load(server: TestServer, { roles, ...release }: Release): Promise<string> {
  const credentials = new Credentials(SECRET);
  const { group, writer, reader } = roles;
  const control = `old_${release.database}`;
  const { user } = server.connection;
  const owned = (lines: readonly string[]) =>
    lines.join('\n').replaceAll(/\b(OWNER TO|ROLE|TO|FROM) cdp\b/g, `$1 ${user}`);
  const clear = (text: string) => onServer(server, (client) => clearAway(client, text));
  const run = async (text: string, undo?: string, database?: string) => {
    await ask(server, text, database);
    if (undo !== undefined) drops.push(() => clear(undo));
  };
  await run(`CREATE ROLE ${group} NOLOGIN`, `DROP ROLE IF EXISTS ${group}`);
  for (const role of [writer, reader]) {
    await run(`CREATE ROLE ${role} LOGIN PASSWORD '${credentials.password(role)}'`, `DROP ROLE IF EXISTS ${role}`);
    await run(`GRANT ${group} TO ${role}`);
  }
  await run(`CREATE DATABASE ${control}`, dropDatabase(control));
  const { database } = release;
  await run(`CREATE DATABASE ${database}`, dropDatabase(database));
  await run(`REVOKE ALL ON DATABASE ${database} FROM PUBLIC`);
  await run(`GRANT CONNECT ON DATABASE ${database} TO ${group}`);
  await run(`GRANT TEMPORARY ON DATABASE ${database} TO ${writer}`);
  await run(owned(release.controlSql), undefined, control);
  await run(owned(release.projectSql), undefined, database);
  // Keys are kept for 24 hours, and the dump is older.
  await run('UPDATE _cdp.idempotency_keys SET created_at = now()', undefined, database);
  // The template is in no dump: it is made of the migrations alone.
  const text = 'UPDATE cdp.instance SET template_version = 0 RETURNING id';
  const [instance] = await ask<{ id: string }>(server, text, control);
  drops.push(() => clear(dropDatabase(`cdp_template_${instance?.id}`)));
  return control;
}

describe.each(CASES)('$name', ({ server, release }) => {
  it(`is taken over by ${INSTANCES} instances that start at once, with rows, tokens and keys`, async () => {
    const control = await load(server, release);
    const flags = { port: '0', 'log-level': 'silent', 'database-url': urlOf(server, control), secret: SECRET };
    const { config } = loadConfig(flags, {}, null);
    const services: Service[] = await Promise.all(
      Array.from({ length: INSTANCES }, () => startService(config, pino({ level: 'silent' }))),
    );
    try {
      const { token, record } = release;
      const post = (i: number, path: string, body: unknown, headers = {}) =>
        call(services[i % INSTANCES]?.url ?? '', 'POST', path, { token, body, headers });
      // All of them bring the project's database up to date at once, and nobody is told to come again.
      await Promise.all(
        services.map(async (_, i) => {
          const body = { sql: 'SELECT * FROM kept ORDER BY text', read_only: i % 2 === 0 };
          const response = await post(i, '/api/cdp/sql', body);
          expect(response.body.rows, response.text).toMatchObject([{ ...record }, { text: null, jsonb: null }]);
        }),
      );
      const key = { 'idempotency-key': 'of an older version' };
      const repeated = await post(0, '/api/cdp/data/kept', [record, {}], key);
      expect([repeated.status, repeated.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
      expect((await post(1, '/api/cdp/data/kept', [record])).status).toBe(201);
      const { url } = services[2] as Service;
      const path = '/api/cdp/schema/table/kept/column/integer';
      expect((await call(url, 'PUT', path, { token, body: { new_type: 'TEXT' } })).status).toBe(200);
      const described = await call(url, 'GET', '/api/cdp/schema/table/kept', { token });
      expect(described.body.table).toMatchObject({ comment: 'of an older version' });
      expect(await versions(server, 'cdp', control)).toEqual(readMigrations('control').map(({ version }) => version));
      const project = await versions(server, '_cdp', release.database);
      expect(project.at(-1)).toBe(newestVersion(readMigrations('project')));
      expect(new Set(project).size).toBe(project.length);
    } finally {
      await Promise.all(services.map((service) => service.close()));
    }
  });
});

it('there is a dump of every version of the control schema', () => {
  const versionsDumped = new Set(RELEASES.map(({ release }) => release.control));
  expect([...versionsDumped].sort((a, b) => a - b)).toEqual(readMigrations('control').map(({ version }) => version));
});

it('refuses a control schema or a template of a newer program, with its name and version', async () => {
  const service = await startTestService();
  const { server, config } = service;
  const env = { DATABASE_URL: config.databaseUrl ?? '', CDP_SECRET: config.secret ?? '' };
  try {
    for (const [schema, database] of [
      ['cdp', service.database],
      ['_cdp', `cdp_template_${service.engine.control.instanceId}`],
    ] as const) {
      await ask(server, `INSERT INTO ${schema}.migrations (version, name) VALUES (999, 'of the future')`, database);
      const { code, stderr } = await runProgram(['serve', '--port', '0'], { env });
      await ask(server, `DELETE FROM ${schema}.migrations WHERE version = 999`, database);
      expect(code).toBe(1);
      expect(stderr).toMatch(new RegExp(`version 999 of the ${schema} schema.*start a newer program`));
      expect(stderr).not.toMatch(/^ +at /m);
    }
  } finally {
    await service.close();
  }
});
