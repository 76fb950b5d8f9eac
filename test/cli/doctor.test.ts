/**
 * `cdp doctor`: reports nothing if all is well, otherwise names what is wrong and what to do, and leaves nothing
 * behind.
 */
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/contract/wire/findings.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { smallDisk } from '../faults/support/disk.js';
import { startAddedServer } from '../support/added-server.js';
import { copyPreparedDataDir } from '../support/prepared-data-dir.js';
import { withDatabase } from '../support/postgres.js';
import { endEverything, eventually, newDataDir, runProgram, startServe } from '../support/program.js';
import { onServer, startTestService, type TestService } from '../support/service.js';

interface Report {
  problems: number;
  warnings: number;
  findings: Finding[];
}

describe('on an embedded Postgres', () => {
  afterAll(endEverything);

  it('creates nothing in a folder without a database, and says where to look', async () => {
    const dataDir = await newDataDir();
    const { code, stdout } = await runProgram(['doctor', '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([1, expect.stringContaining(`There is no database in ${dataDir}`)]);
    expect(stdout).toMatch(/^ok +version +\S/);
    expect(stdout).toMatch(/^1 problem, 0 warnings$/m);
    expect(stdout).toContain('--data-dir');
    expect(existsSync(dataDir)).toBe(false);
  });

  it('reports no problem after the first start', async () => {
    const dataDir = await newDataDir();
    const doctor = (...args: string[]) => runProgram(['doctor', '--data-dir', dataDir, ...args]);
    expect((await (await startServe(['--data-dir', dataDir])).end()).code).toBe(0);
    const { code, stdout, stderr } = await doctor();
    expect([code, stderr]).toEqual([0, '']);
    const { stdout: version } = await runProgram(['--version']);
    const [first] = stdout.split('\n');
    expect(first).toMatch(/^ok +version +[\d.]+ \(.+\)$/);
    expect(first).toContain(` ${version.trimEnd()}`);
    for (const subject of ['Postgres', 'rights', 'durability', 'passwords', 'clock', 'control schema']) {
      expect(stdout).toMatch(new RegExp(`^ok +${subject} +\\S`, 'm'));
    }
    expect(stdout).toMatch(/^(ok|WARNING) +disk +.* free$/m);
    expect(stdout).toMatch(/^ok +projects +1 not checked, because its server is stopped until the next request$/m);
    expect(stdout).toMatch(/^ok +trial +.*read it, and deleted everything in \d+ ms$/m);
    expect(stdout).toMatch(/^0 problems, \d warnings?$/m);
    const { stdout: list } = await runProgram(['project', 'list', '--json', '--data-dir', dataDir]);
    expect((JSON.parse(list) as { name: string }[]).map(({ name }) => name)).toEqual(['default']);
  });

  it('says what to do if Postgres cannot start because the disk is full', async () => {
    const disk = await smallDisk();
    if (disk === null) return console.log('full disk: there is no right to mount a disk');
    const { dataDir } = disk;
    try {
      await copyPreparedDataDir(dataDir);
      await disk.fill(0);
      const { code, stdout } = await runProgram(['doctor', '--data-dir', dataDir]);
      expect(code).toBe(1);
      expect(stdout).toMatch(/^PROBLEM +Postgres +.*no space left on device/im);
      expect(stdout).toMatch(
        /^PROBLEM +disk +0\.0 MB of 400\.0 MB free: projects can only be read\n +-> Free space on the disk of /m,
      );
      await disk.makeRoom(0);
    } finally {
      await disk.close();
    }
  });
});

describe('on the Postgres of a URL', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service.close());

  const doctor = async (env: Record<string, string> = {}): Promise<Report & { code: number | null }> => {
    const { databaseUrl, secret } = service.config;
    const { code, stdout, stderr } = await runProgram(['doctor', '--json'], {
      env: { DATABASE_URL: databaseUrl ?? '', CDP_SECRET: secret ?? '', ...env },
    });
    expect(stderr).toBe('');
    return { code, ...(JSON.parse(stdout) as Report) };
  };

  it('says what does not exist yet if the database is empty', async () => {
    await withDatabase(async ({ name }) => {
      const url = (service.config.databaseUrl ?? '').replace(/@\/\w+\?/, `@/${name}?`);
      const { findings } = await doctor({ DATABASE_URL: url });
      expect(findings).toContainEqual(
        expect.objectContaining({ subject: 'control schema', health: 'warning', found: 'not created yet' }),
      );
      expect(findings.map(({ subject }) => subject)).not.toContain('trial');
    });
  });

  it('names what makes acknowledged rows unsafe, next to a running service', async () => {
    // The servers of the tests are thrown away, and run without fsync.
    const { code, problems, findings } = await doctor();
    expect([code, problems]).toEqual([1, 1]);
    expect(findings.find(({ health }) => health === 'problem')).toEqual({
      subject: 'durability',
      health: 'problem',
      found: 'off: fsync, full_page_writes, synchronous_commit; acknowledged rows can be lost',
      advice: 'ALTER SYSTEM RESET for: fsync, full_page_writes, synchronous_commit',
    });
    expect(findings.at(-1)).toMatchObject({ subject: 'trial', health: 'ok' });
  });

  it('names what a project did to itself, and the command that repairs it', async () => {
    const project = await service.project();
    await project.rows(
      `DO $$ BEGIN EXECUTE format('ALTER ROLE %I SET synchronous_commit = off', current_user); END $$`,
    );
    const { findings } = await doctor();
    expect(findings).toContainEqual({
      subject: `project ${project.name}`,
      health: 'problem',
      found: 'its roles have their own synchronous_commit',
      advice: `cdp project repair ${project.name}`,
    });
    await service.engine.projects.repair(project.name, BY_ITSELF);
    expect((await doctor()).findings).toContainEqual(expect.objectContaining({ subject: 'projects', health: 'ok' }));
  });

  it('reports the same finding of several projects once, next to a trial that fails', async () => {
    const projects = [await service.project(), await service.project()];
    for (const project of projects) {
      await project.rows(
        `DO $$ BEGIN EXECUTE format('ALTER ROLE %I SET synchronous_commit = off', current_user); END $$`,
      );
    }
    const template = `cdp_template_${service.engine.control.instanceId}`;
    const rename = (from: string, to: string) =>
      onServer(service.server, (client) => client.query(`ALTER TABLE _cdp.${from} RENAME TO ${to}`), template);
    await rename('idempotency_keys', 'away');
    try {
      const { findings } = await doctor();
      expect(findings).toContainEqual({
        subject: '2 projects',
        health: 'problem',
        found: `its roles have their own synchronous_commit: ${projects.map(({ name }) => name).join(', ')}`,
        advice: 'cdp project repair --all',
      });
      expect(findings.at(-1)).toMatchObject({ subject: 'trial', health: 'problem' });
      expect(findings.at(-1)?.found).toContain('idempotency_keys');
    } finally {
      await rename('away', 'idempotency_keys');
      for (const { name } of projects) await service.engine.projects.repair(name, BY_ITSELF);
    }
  });

  it('recommends Postgres settings, with the statement that sets each', async () => {
    const { findings } = await doctor();
    expect(findings).toContainEqual({
      subject: 'settings',
      health: 'warning',
      found: "log_min_error_statement is error: Postgres's log contains the SQL of callers' failed statements",
      advice: "ALTER SYSTEM SET log_min_error_statement = 'panic'; then SELECT pg_reload_conf();",
    });
    expect(findings.map(({ advice }) => advice)).toContain(
      "ALTER SYSTEM SET max_locks_per_transaction = '256'; then restart Postgres",
    );
    expect(findings).toContainEqual(expect.objectContaining({ subject: 'commits', health: 'ok' }));
  });

  it.each([
    ['LOGIN', /^the service's role may not create databases and roles$/],
    ['LOGIN CREATEDB CREATEROLE', /^the service's role may not create its schema in the control database$/],
  ])('reports a role with only %s as a problem before the first start', async (attributes, found) => {
    await withDatabase(async ({ name }) => {
      const role = `role_${name}`;
      await onServer(service.server, (client) => client.query(`CREATE ROLE ${role} ${attributes} PASSWORD 'x'`));
      try {
        const { host, port } = service.server.connection;
        const url = `postgres://${role}:x@/${name}?host=${encodeURIComponent(host)}&port=${port}`;
        const { code, findings } = await doctor({ DATABASE_URL: url });
        expect(code).toBe(1);
        const rights = findings.find(({ subject }) => subject === 'rights');
        expect(rights).toMatchObject({ health: 'problem', found: expect.stringMatching(found) as string });
      } finally {
        await onServer(service.server, (client) => client.query(`DROP ROLE ${role}`));
      }
    });
  });

  it('checks every added server and tries everything there, and waits only once for one that does not respond', async () => {
    const server = await startAddedServer();
    const [name, url] = ['CDP_TEST_SECOND_URL', server.url];
    const { engine } = service;
    const row = { name: 'second', urlReference: `env:${name}`, engine: 'postgres', tenancy: 'shared' } as const;
    const bounds = { labels: {}, weight: 1, maxProjects: null, maxBytes: null, maxConnections: 7 };
    try {
      process.env[name] = url;
      expect(await engine.control.servers.add({ ...row, ...bounds }, null)).toBe(true);
      const projects = [await service.project(undefined, 'second'), await service.project(undefined, 'second')];
      const { findings } = await doctor({ [name]: url });
      const about = (subject: string) => findings.filter((finding) => finding.subject === `second: ${subject}`);
      for (const subject of ['Postgres', 'rights', 'clock', 'trial', 'connections']) {
        expect(about(subject), subject).toMatchObject([{ health: 'ok' }]);
      }
      // How good they are is the machine's.
      for (const subject of ['latency', 'commits']) expect(about(subject), subject).toHaveLength(1);
      expect(about('durability')).toMatchObject([{ health: 'problem' }]);
      expect(about('settings').map(({ found }) => found)).toContainEqual(
        expect.stringContaining('log_min_error_statement is error'),
      );
      await engine.control.servers.set('second', { status: 'closed' }, null);
      const closed = (await doctor({ [name]: url })).findings.at(-1);
      const found = 'not tried: The server "second" accepts no more projects';
      expect(closed).toMatchObject({ subject: 'second: trial', health: 'ok', found });
      await server.signal('SIGSTOP', 'everybody');
      const away = await doctor({ [name]: url });
      await server.signal('SIGCONT', 'everybody');
      expect(away.findings.filter(({ subject }) => subject.startsWith('second'))).toMatchObject([
        { subject: 'second: Postgres', health: 'problem', found: 'Postgres did not answer the login in time' },
      ]);
      expect(away.findings).toContainEqual({
        ...{ subject: '2 projects', health: 'problem', advice: 'cdp server check second' },
        found: `not checked: the server second does not answer: ${projects.map((project) => project.name).join(', ')}`,
      });
      await eventually('the service has seen that it is back', () =>
        Promise.resolve(engine.serverWatch.states.every(({ isUp }) => isUp)),
      );
      for (const project of projects) await engine.projects.delete(project.name, BY_ITSELF);
      expect(await engine.control.servers.remove('second', null)).toBe(true);
    } finally {
      await server.close();
    }
  });

  it('refuses to work with the schema of a newer program, and does not change it', async () => {
    const database = new URL((service.config.databaseUrl ?? '').replace('@/', '@h/')).pathname.slice(1);
    const change = (text: string) => onServer(service.server, (client) => client.query(text), database);
    await change(`INSERT INTO cdp.migrations (version, name) VALUES (999, 'of the future')`);
    try {
      const { code, findings } = await doctor();
      expect(code).toBe(1);
      const schema = findings.find(({ subject }) => subject === 'control schema');
      expect(schema?.health).toBe('problem');
      expect(schema?.found).toMatch(/^version 999; this program supports up to \d+$/);
      expect(findings.map(({ subject }) => subject)).not.toContain('trial');
    } finally {
      await change('DELETE FROM cdp.migrations WHERE version = 999');
    }
  });

  it('reports other problems: too few connections, another secret, no server', async () => {
    const found = async (env: Record<string, string>, subject: string) =>
      (await doctor(env)).findings.find((finding) => finding.subject === subject && finding.health !== 'ok');
    expect(await found({ CDP_MAX_CONNECTIONS: '5000' }, 'connections')).toMatchObject({ health: 'warning' });
    const secret = 'another secret, of more than 32 characters';
    expect((await found({ CDP_SECRET: secret }, 'trial'))?.found).toContain('not the secret');
    const nowhere = await found({ DATABASE_URL: 'postgres://me:x@127.0.0.1:1/none' }, 'Postgres');
    expect(nowhere).toMatchObject({ health: 'problem', found: expect.stringContaining('ECONNREFUSED') as string });
    expect(nowhere?.advice).toContain('DATABASE_URL');
    const noFile = await found({ DATABASE_URL: 'postgres://me:x@h/none?sslrootcert=/nonexistent' }, 'Postgres');
    expect(noFile?.found).toBe('DATABASE_URL names a file that cannot be read: /nonexistent');
    expect(noFile?.advice).toContain('DATABASE_URL');
  });
});
