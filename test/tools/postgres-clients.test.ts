/**
 * Third-party clients do at the Postgres port what they do at any Postgres: the programs in `clients/`, psql, and the
 * catalog queries of tools. `scripts/ci.mjs` installs them.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { login, withClient } from '../postgres-port/connect.js';
import { questions, statementsOf } from '../isolation/introspection/questions.js';
import { makeFolder } from '../support/folder.js';
import { inProject, startOwnService, type TestProject, type TestService } from '../support/service.js';

/** One comes by TCP, the other by a Unix socket. */
const OF_THE_CONNECTION = 'pgAdmin, how the connection is protected';

const folder = fileURLToPath(new URL('clients/', import.meta.url));
const places = makeFolder('cdp-clients-');
let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startOwnService({ 'pg-port': '0' });
  project = await service.project();
});
afterAll(async () => {
  await service.close();
  rmSync(places, { recursive: true, force: true });
});

const url = (user: 'writer' | 'reader') =>
  `postgres://${user}:${project.token}@127.0.0.1:${service.postgresPort}/${project.name}`;

/** Runs a program to its end, which must be a good one. @returns what it printed */
async function run(program: string, args: string[]): Promise<string> {
  const env = { ...process.env, CDP_WRITER: url('writer'), CDP_READER: url('reader') };
  return (await promisify(execFile)(program, args, { cwd: folder, env })).stdout;
}

const psql = (user: 'writer' | 'reader', ...commands: string[]) =>
  run('psql', ['-X', '-A', '-v', 'ON_ERROR_STOP=1', ...commands.flatMap((one) => ['-c', one]), url(user)]);

describe('works with', () => {
  it('psql: \\d, \\dt+, \\copy both ways', async () => {
    await psql('writer', 'CREATE TABLE shops (id serial PRIMARY KEY, name text UNIQUE)');
    const [from, to] = [join(places, 'from.csv'), join(places, 'to.csv')];
    const lines = Array.from({ length: 20_000 }, (_, n) => `${n + 1},"shop ${n}, the"\n`).join('');
    writeFileSync(from, lines);
    expect(await psql('writer', `\\copy shops FROM '${from}' csv`)).toBe('COPY 20000\n');
    expect(await psql('reader', `\\copy (SELECT * FROM shops ORDER BY id) TO '${to}' csv`)).toBe('COPY 20000\n');
    expect(readFileSync(to, 'utf8').replaceAll('"', '')).toBe(lines.replaceAll('"', ''));
    for (const user of ['writer', 'reader'] as const) {
      expect(await psql(user, '\\d shops')).toContain('"shops_name_key" UNIQUE CONSTRAINT, btree (name)');
      expect(await psql(user, '\\dt+')).toMatch(/^data\|shops\|table\|writer\|permanent\|heap\|\d+ kB\|$/m);
      expect(await psql(user, '\\dn', '\\du', '\\dp', '\\df', '\\di+', '\\ds', '\\dT', '\\dx', '\\ddp')).toContain(
        'data|',
      );
    }
    await expect(psql('reader', 'DELETE FROM shops')).rejects.toThrow(/read-only transaction/);
  });

  it('psql: \\watch, and Ctrl-C', async () => {
    const interrupted = async (script: string, isReady: (output: string) => Promise<boolean>) => {
      const child = spawn('psql', ['-X', '-A', '-t', url('writer')]);
      const errors = text(child.stderr);
      let output = '';
      child.stdout.on('data', (chunk) => (output += String(chunk)));
      child.stdin.end(script);
      await expect.poll(() => isReady(output), { timeout: 60_000 }).toBe(true);
      child.kill('SIGINT');
      await once(child, 'close');
      return errors;
    };
    const seen = (output: string) => output.split('\n').filter((line) => line === '7').length;
    await interrupted('SELECT 7 \\watch 0.05\n', (output) => Promise.resolve(seen(output) > 2));
    const asleep = `SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg\\_sleep%'`;
    const errors = await interrupted('SELECT pg_sleep(3600);\n', async () => (await project.rows(asleep)).length === 1);
    expect(errors).toContain('canceling statement due to user request');
    await expect.poll(() => project.rows(asleep)).toEqual([]);
  });

  it('what dlt, Airbyte and other loaders do: schemas, staging tables, COPY, MERGE', async () => {
    project = await service.project();
    const printed = await run('psql', [
      '-X',
      '-A',
      '-t',
      '-q',
      '-v',
      'ON_ERROR_STOP=1',
      '-f',
      'loaders.sql',
      url('writer'),
    ]);
    expect(printed.trim().split('\n')).toEqual([
      ...['dlt|1|a', 'b|', 'dlt|2|changed!|f', 'dlt|3|new!|t', 'dlt|2'],
      ...['t', 'id', 'airbyte|1|2.500000000', 'airbyte|2|', 'airbyte|3'],
      ...['may|t|t|t', 'staged|1|10|f', 'staged|2||f'],
    ]);
    expect(await psql('reader', '\\dt *.orders')).toContain('shop_airbyte|orders|table|writer');
  });

  it.each([
    ['node-postgres, with cursors, streams and COPY', process.execPath, ['node-postgres.mjs']],
    ['postgres.js', process.execPath, ['postgres-js.mjs']],
    ['Drizzle: generate, migrate, pull', process.execPath, ['drizzle.mjs']],
    ['Prisma: db push, db pull, migrations', process.execPath, ['prisma.mjs']],
    ['Kysely and Knex: migrations, introspection', process.execPath, ['query-builders.mjs']],
    ['psycopg 2 and 3, pandas, SQLAlchemy', '/usr/bin/python3', ['python.py']],
  ])('%s', async (_name, program, args) => {
    project = await service.project();
    await run(program, args);
  });

  it('pgjdbc: batches, portals, COPY, cancel, metadata', async () => {
    project = await service.project();
    const args = ['127.0.0.1', String(service.postgresPort), project.name, project.token];
    await run('java', ['-cp', '/usr/share/java/postgresql.jar', 'Jdbc.java', ...args]);
  });
});

describe('the catalog queries of tools', () => {
  beforeAll(async () => {
    project = await service.project();
    await project.table('customers', { email: 'TEXT' });
    await project.rows(statementsOf('own-objects.sql'));
  });

  it.each(['writer', 'reader'] as const)('return what Postgres returns, for the %s', async (user) => {
    const { placement } = await service.engine.projects.get(project.name);
    const different: string[] = [];
    await withClient(login(service, project, user), (client) =>
      inProject(service, { ...placement }, async (direct) => {
        await direct.query(`SET ROLE ${user}; SET search_path = data`);
        for (const file of ['psql.sql', 'orms.sql', 'tools.sql']) {
          for (const { ask, sql } of questions(file)) {
            if (ask === OF_THE_CONNECTION) continue;
            const here = await shape(client.query(sql));
            const there = await shape(direct.query(sql));
            if (here !== there) different.push(`${ask}: ${here} instead of ${there}`);
          }
        }
      }),
    );
    expect(different).toEqual([]);
  });
});

/** Names and types of the columns and numbers of rows, or the error. */
async function shape(asked: Promise<unknown>): Promise<string> {
  const results = await asked.catch((error: unknown) => error);
  if (results instanceof Error) return results.message;
  const shapes = [results].flat() as { fields: { name: string; dataTypeID: number }[]; rows: unknown[] }[];
  return JSON.stringify(
    shapes.map(({ fields, rows }) => [fields.map(({ name, dataTypeID }) => `${name} ${dataTypeID}`), rows.length]),
  );
}
