/**
 * An operator's own Postgres remains manageable: its superuser can dump and upgrade it, the service's role can lose
 * SUPERUSER, and the service restores what a dump or an operator removed from its roles.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { examine } from '../../src/engine/doctor/doctor.js';
import { loadConfig } from '../../src/cli/load-config.js';
import { type Service, startService } from '../../src/service.js';
import type { Finding } from '../../src/contract/wire/findings.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { accountFor, ENVIRONMENT, run as runAs } from '../../src/embedded/accounts.js';
import { addressOfUrl } from '../../src/pg/index.js';
import { makeFolder } from '../support/folder.js';
import { connected } from '../support/postgres.js';
import { projectRoot } from '../support/program.js';
import { call } from '../support/service.js';
import { type Connection, debianMajors, startThrowaway, type ThrowawayServer } from '../support/throwaway-postgres.js';

const SECRET = 's'.repeat(32);

let folder: string;
const servers: ThrowawayServer[] = [];
beforeAll(async () => {
  folder = makeFolder('cdp-own-postgres-');
  await chmod(folder, 0o711);
});
afterAll(async () => {
  for (const server of servers) await server.stop();
  await rm(folder, { recursive: true, force: true });
});

const startServer = async (major: number): Promise<Connection> => {
  const server = await startThrowaway(join(folder, randomBytes(3).toString('hex')), { major });
  servers.push(server);
  return server.connection;
};

/** Its folder stays. */
async function stop(server: Connection): Promise<void> {
  const at = servers.findIndex(({ connection }) => connection === server);
  await servers[at]?.stop('fast');
  servers.splice(at, 1);
}

const asSuperuser = (server: Connection, text: string, database = server.database) =>
  connected({ ...server, database }, (client) => client.query<Record<string, string>>(text));

const urlFor = ({ host, port }: Connection): string =>
  `postgres://cdp:pw@/cdp?host=${encodeURIComponent(host)}&port=${port}`;

const start = (server: Connection): Promise<Service> => {
  const flags = { port: '0', 'log-level': 'silent', 'database-url': urlFor(server), secret: SECRET };
  return startService(loadConfig(flags, {}, null).config, pino({ level: 'silent' }));
};

async function withService<T>(server: Connection, work: (service: Service) => Promise<T>): Promise<T> {
  const service = await start(server);
  try {
    return await work(service);
  } finally {
    await service.close();
  }
}

/** The service's role, with a project `one` that has a row. @returns the project's token */
async function install(server: Connection, attributes: string): Promise<string> {
  await asSuperuser(server, `CREATE ROLE cdp LOGIN ${attributes} PASSWORD 'pw'`);
  await asSuperuser(server, 'CREATE DATABASE cdp OWNER cdp');
  return withService(server, async ({ engine, url }) => {
    const { id } = await engine.projects.create('one');
    const { token } = await engine.tokens.create(id);
    const columns = [{ name: 'n', type: 'INTEGER' }];
    await call(url, 'POST', '/api/cdp/schema/table', { token, body: { table_name: 't', columns } });
    expect(await insert(url, token)).toBe(201);
    return token;
  });
}

const insert = async (url: string, token: string) =>
  (await call(url, 'POST', '/api/cdp/data/t', { token, body: [{ n: 1 }] })).status;

/** What the service does with the roles and databases of projects. */
const useEverything = (server: Connection, token: string) =>
  withService(server, async ({ engine, url }) => {
    expect(await insert(url, token)).toBe(201);
    await engine.projects.repair('one', BY_ITSELF);
    expect(await insert(url, token)).toBe(201);
    await engine.projects.setActive('one', false, BY_ITSELF, true);
    await engine.projects.setActive('one', true, BY_ITSELF);
    await engine.projects.create('two');
    await engine.projects.delete('two', BY_ITSELF);
    const address = addressOfUrl(urlFor(server));
    const patient = { address, connections: 10, embedded: null, engine: () => Promise.resolve(engine) };
    const findings: Finding[] = [];
    await examine(patient, BY_ITSELF, (finding) => findings.push(finding));
    expect(findings.filter(({ subject }) => /rights|project|trial/.test(subject))).toMatchObject([
      { subject: 'rights', health: 'ok' },
      { subject: 'projects', health: 'ok' },
      { subject: 'trial', health: 'ok' },
    ]);
  });

describe.each([18, ...debianMajors()])('Postgres %i', (major) => {
  it('still works if SUPERUSER is granted only for the first start', async () => {
    const server = await startServer(major);
    const token = await install(server, 'SUPERUSER CREATEDB CREATEROLE');
    await asSuperuser(server, 'ALTER ROLE cdp NOSUPERUSER');
    await useEverything(server, token);
  });

  it('restores memberships that its role has lost', async () => {
    const server = await startServer(major);
    const token = await install(server, 'CREATEDB CREATEROLE');
    const lose = `DO $$ DECLARE r record; BEGIN
      FOR r IN SELECT rolname FROM pg_roles WHERE rolname ~ '^[wr]_' LOOP
        EXECUTE format('REVOKE %I FROM cdp GRANTED BY cdp CASCADE', r.rolname);
      END LOOP; END $$`;
    await asSuperuser(server, lose);
    await withService(server, async ({ engine, url }) => {
      expect(await insert(url, token)).toBe(201);
      const project = await engine.projects.get('one');
      expect(await engine.projects.examine(project)).toEqual(['the service lacks the privileges of its roles']);
      expect((await engine.projects.repair('one', BY_ITSELF)).repaired).toEqual([
        'the service lacks the privileges of its roles',
      ]);
      expect(await engine.projects.examine(project)).toEqual([]);
    });
    await useEverything(server, token);
  });
});

const programsOf = (major: number): string => `/usr/lib/postgresql/${major}/bin`;

describe.each(debianMajors())('from Postgres %i', (major) => {
  const bin = programsOf(major);
  const run = (program: string, { host, port, user, password }: Connection, ...args: string[]) =>
    promisify(execFile)(join(bin, program), ['-h', host, '-p', String(port), '-U', user, ...args], {
      env: { PGPASSWORD: password },
    });

  it.each(['SUPERUSER', 'CREATEDB CREATEROLE'])(
    'pg_dumpall of a service with %s can be restored into 18',
    async (attributes) => {
      const from = await startServer(major);
      const token = await install(from, attributes);
      const file = join(folder, `${major}-${attributes.length}.sql`);
      await run('pg_dumpall', from, '--file', file);
      // Another major may not have the functions.
      const dumped = await readFile(file, 'utf8');
      expect(dumped.match(/^(?:GRANT|REVOKE) .* pg_catalog\..*/gm)).toBeNull();
      const to = await startServer(18);
      // Its superuser is there already, so that some statements fail.
      await run('psql', to, '--quiet', '--file', file, 'postgres');
      const page = await readFile(join(projectRoot, 'docs/operations.md'), 'utf8');
      const [, grants = ''] = /```sql\n( *DO \$\$\n[^`]*WITH ADMIN OPTION[^`]*)```/.exec(page) ?? [];
      expect(grants).not.toBe('');
      await asSuperuser(to, grants);
      await useEverything(to, token);
    },
  );

  // To the same major if there is no newer one: what the service has changed in the catalogs, it takes over all the
  // same.
  it.each(['SUPERUSER', 'CREATEDB CREATEROLE'])('pg_upgrade of a service with %s works', async (attributes) => {
    const newest = Math.max(...debianMajors());
    const [from, to] = [await startServer(major), await startServer(newest)];
    const token = await install(from, attributes);
    await stop(from);
    await stop(to);
    const clusters = ['-b', bin, '-B', programsOf(newest), '-d', join(from.host, 'data'), '-D', join(to.host, 'data')];
    const upgrade = [join(programsOf(newest), 'pg_upgrade'), ...clusters, '-U', to.user, '-s', to.host];
    // It writes into the current folder.
    const { code, output } = await runAs(
      await accountFor(folder),
      '/bin/sh',
      ['-c', 'cd "$0" && exec "$@"', to.host, ...upgrade],
      { ...ENVIRONMENT, PGPASSWORD: to.password },
    );
    expect([code, output]).toEqual([0, expect.stringContaining('Upgrade Complete')]);
    const upgraded = await startThrowaway(to.host, { major: newest });
    servers.push(upgraded);
    await useEverything(upgraded.connection, token);
  });
});
