/** Backups into a folder as programs: the service makes them by itself, and a machine comes back from the folder alone. */
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  firstToken,
  newDataDir,
  newFolder,
  preparedDataDir,
  runProgram,
  startServe,
} from '../support/program.js';
import { call } from '../support/service.js';

afterAll(endEverything);

let folder: string;
let target: string;
let dataDir: string;
beforeAll(async () => {
  folder = await newFolder();
  target = join(folder, 'backup');
  dataDir = await preparedDataDir();
});

async function cdp(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return runProgram(args, { cwd: folder, env: { TMPDIR: folder } });
}

const sql = async (url: string, token: string, text: string) =>
  (await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } })).body;

describe('a service with backup-to', () => {
  it('saves everything at the times of backup-at, and runs backup-command with the folder', async () => {
    const command = join(folder, 'after.sh');
    writeFileSync(command, `#!/bin/sh\nls "$1" > '${join(folder, 'seen')}'\nenv > '${join(folder, 'env')}'\n`);
    chmodSync(command, 0o755);
    const settings = ['--backup-to', target, '--backup-at', '* * * * * *', '--backup-command', command];
    const service = await startServe(['--data-dir', dataDir, ...settings], {
      env: { CDP_SECRET: 'never-for-a-command-of-the-operator' },
    });
    const token = await firstToken(dataDir);
    await sql(service.url, token, 'CREATE TABLE t AS SELECT 7 AS n');
    const seen = () => (existsSync(join(folder, 'seen')) ? readFileSync(join(folder, 'seen'), 'utf8').split('\n') : []);
    // The first backup may be from before the first project.
    await eventually('the command sees a project', () => Promise.resolve(seen().includes('projects')));
    expect(seen()).toEqual(expect.arrayContaining(['control', 'epoch', 'projects']));
    expect(readFileSync(join(folder, 'env'), 'utf8')).not.toContain('never-for-a-command');
    await eventually('the metrics say so', async () => {
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      const [, age] = /^cdp_backup_age_seconds (\S+)$/m.exec(metrics) ?? [];
      return /^cdp_backup_failed 0$/m.test(metrics) && Number(age) < 600;
    });
    const listed = await cdp('project', 'list', '--json', '--data-dir', dataDir);
    expect((JSON.parse(listed.stdout) as { saved_at: string | null }[])[0]?.saved_at).toMatch(/^\d{4}-/);
    const doctor = await cdp('doctor', '--data-dir', dataDir);
    expect(doctor.stdout).toContain(`backups into ${target}`);
    await service.end();
    const last = await cdp('backup', '--to', target, '--data-dir', dataDir);
    expect(last.code, last.stderr).toBe(0);
  });

  it('says so if a backup fails: in the log, by readyz, a metric and the doctor', async () => {
    const other = await preparedDataDir();
    const missing = join(folder, 'not-mounted', 'backup');
    const service = await startServe(['--data-dir', other, '--backup-to', missing, '--backup-at', '* * * * * *']);
    await eventually('the metric says so', async () =>
      /^cdp_backup_failed 1$/m.test(await (await fetch(`${service.url}/metrics`)).text()),
    );
    expect(await (await fetch(`${service.url}/readyz`)).json()).toMatchObject({
      message: 'degraded',
      backup: 'failed',
    });
    const doctor = await cdp('doctor', '--data-dir', other);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toMatch(/backups into .*ENOENT/s);
    expect(service.output()).toContain('the backup is not made (setting backup-to)');
    await service.end();
  });
});

describe('cdp backup verify', () => {
  it('needs no data folder, counts the rows of a restored copy, and leaves nothing behind', async () => {
    const before = readdirSync(folder);
    const result = await cdp('backup', 'verify', target, '--start', '--json');
    expect(result.code, result.stderr).toBe(0);
    const { projects, faults } = JSON.parse(result.stdout) as { projects: object[]; faults: string[] };
    expect(faults).toEqual([]);
    expect(projects).toEqual([{ name: 'default', tables: [{ name: 't', rows: 1 }] }]);
    expect(readdirSync(folder)).toEqual(before);
  });

  it('ends with 1 and names the file if one is damaged', async () => {
    const path = join(target, 'control', 'data', 'PG_VERSION');
    const good = readFileSync(path);
    writeFileSync(path, '17\n');
    const result = await cdp('backup', 'verify', target);
    writeFileSync(path, good);
    expect(result).toMatchObject({ code: 1 });
    expect(result.stdout).toContain('FAULT: control: It is damaged: the checksum of data/PG_VERSION is wrong');
  });
});

describe('cdp restore --from', () => {
  it('brings a lost machine back: tokens, projects, settings and the audit log; the old service does not start', async () => {
    const restored = await newDataDir();
    const token = await firstToken(dataDir);
    const checked = await cdp('restore', '--from', target, '--data-dir', restored, '--check');
    expect(checked).toMatchObject({ code: 0, stdout: 'Nothing was changed\n' });
    expect(checked.stderr).toContain('default: can be restored');
    expect(existsSync(join(restored, 'postgres'))).toBe(false);
    const result = await cdp('restore', '--from', target, '--data-dir', restored);
    expect(result.code, result.stderr).toBe(0);
    expect(result.stdout).toBe('Project default restored\n');
    const service = await startServe(['--data-dir', restored, '--backup-to', target]);
    expect(await sql(service.url, token, 'SELECT n FROM t')).toMatchObject({ rows: [{ n: 7 }] });
    const audit = await cdp('audit', '--data-dir', restored);
    expect(audit.stdout).toContain('project.create');
    const old = await cdp('serve', '--port', '0', '--data-dir', dataDir, '--backup-to', target);
    expect(old.code).toBe(1);
    expect(old.stderr).toContain(`This installation was restored from ${target}`);
    await service.end();
  });

  it('refuses a folder without a whole backup, and leaves no data folder', async () => {
    const restored = await newDataDir();
    rmSync(join(target, 'control', 'data', 'global', 'pg_control'));
    const result = await cdp('restore', '--from', target, '--data-dir', restored);
    expect(result).toMatchObject({ code: 1 });
    expect(result.stderr).toContain('It has no data/global/pg_control');
    expect(existsSync(join(restored, 'postgres'))).toBe(false);
  });
});
