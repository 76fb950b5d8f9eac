/**
 * The recipe with restic in docs/backup.md, with Debian's restic (apt-get install restic) and a repository in a folder:
 * its commands run, and the second night takes little.
 */
import { execFile } from 'node:child_process';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import { runCommand } from '../../src/scheduled-backups.js';
import { blocks, read } from '../docs/markdown.js';
import { endEverything, newFolder, preparedDataDir, projectRoot, runProgram, startServe } from '../support/program.js';
import { call } from '../support/service.js';

afterAll(endEverything);

const PROJECTS = 5;
/** Of rows that cannot be compressed, in each project. */
const MIB = 8;

const section = read('docs/backup.md').split('## Copies elsewhere: restic')[1]?.split('\n## ')[0] ?? '';
const own = blocks(section);
const [init, script, check] = own.filter(({ language }) => language === 'sh').map(({ text }) => text);
const [settings, unit, timer] = own.filter(({ language }) => language === 'ini').map(({ text }) => text);

/** The bytes of each file of the repository. */
async function packs(repository: string): Promise<Map<string, number>> {
  const entries = await readdir(repository, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    await Promise.all(files.map(async (path): Promise<[string, number]> => [path, (await stat(path)).size])),
  );
}

const sum = (sizes: Iterable<number>): number => [...sizes].reduce((total, size) => total + size, 0);

it('makes encrypted copies, the second of which takes at most a tenth, and which can be restored', async () => {
  const [folder, dataDir] = [await newFolder(), await preparedDataDir()];
  const bin = join(folder, 'bin');
  await mkdir(bin);
  await mkdir(join(folder, 'backups'));
  const program = `#!/bin/sh\nexec '${process.execPath}' '${projectRoot}/dist/cli/bin.js' "$@"\n`;
  await writeFile(join(bin, 'cdp'), program, { mode: 0o755 });
  const { PATH } = process.env;
  const env = { PATH: `${bin}:${PATH}`, HOME: folder, CDP_DATA_DIR: dataDir };
  /** A block of the page, in our folders. We need not be the user cdp. */
  const here = (text = '') =>
    text
      .replaceAll('/var/lib/cdp', dataDir)
      .replaceAll(/\/(?:etc|mnt|backups|var\/tmp)(?=\/)/g, (place) => `${folder}${place}`)
      .replace(' -o cdp', '')
      .replace(/^chown cdp .*$/m, '');
  const sh = async (text: string) => (await promisify(execFile)('sh', ['-euc', text], { env, cwd: folder })).stdout;
  for (const place of ['etc', 'mnt/elsewhere', 'var/tmp']) await mkdir(join(folder, place), { recursive: true });

  const service = await startServe(['--data-dir', dataDir]);
  const tokens: string[] = [];
  const sql = async (token: string | undefined, text: string) => {
    const { status, body } = await call(service.url, 'POST', '/api/cdp/sql', {
      token: token ?? '',
      body: { sql: text },
    });
    expect(status, JSON.stringify(body)).toBe(200);
  };
  for (let i = 0; i < PROJECTS; i++) {
    await sh(`cdp project create shop-${i}`);
    tokens.push((JSON.parse(await sh(`cdp token create --project shop-${i} --json`)) as { token: string }).token);
    const bytes = `(SELECT string_agg(decode(md5(random()::text), 'hex'), '') FROM generate_series(1, 64) WHERE n > 0)`;
    await sql(tokens[i], `CREATE TABLE kept AS SELECT n, ${bytes} AS bytes FROM generate_series(1, ${MIB * 1024}) n`);
    // The first reader notes in each row that it is committed.
    await sql(tokens[i], 'SELECT count(*) FROM kept');
  }

  await sh(here(init));
  // Both nights are of one day here. What is forgotten is packed anew, which would count as the second night's.
  await sh(here(script).replace('--keep-daily', '--keep-last'));
  const starts = [...here(unit).matchAll(/^ExecStart=(.*)$/gm)].map(([, line = '']) => line);
  expect(starts).toHaveLength(2);
  for (const line of starts) await sh(line);
  const repository = join(folder, 'mnt/elsewhere/cdp');
  const first = await packs(repository);

  await sql(tokens[0], 'INSERT INTO kept SELECT n, bytes FROM kept WHERE n < 20');
  const command = /^CDP_BACKUP_COMMAND=(.*)$/m.exec(here(settings))?.[1] ?? '';
  const target = /^CDP_BACKUP_TO=(.*)$/m.exec(here(settings))?.[1] ?? '';
  await sh(`cdp backup --to ${target}`);
  await runCommand(command, { folder: target, next: null }, new AbortController().signal);
  const second = await packs(repository);
  const added = sum([...second].filter(([path]) => !first.has(path)).map(([, size]) => size));
  const share = added / sum(first.values());
  console.log(`restic: ${sum(first.values())} bytes in the first night, ${added} in the second (${share.toFixed(3)})`);
  expect(share).toBeLessThan(0.1);
  // One of them per day is kept.
  await sh(here(script));
  await sh(`${command} ${target}`);
  const snapshots = await sh(`. ${folder}/etc/cdp-restic/settings; restic snapshots --json`);
  expect(JSON.parse(snapshots)).toHaveLength(1);

  const verified = await sh(here(check));
  expect(verified).toContain('shop-0: intact, 1 table, ');
  expect((await service.end()).code).toBe(0);
  const inParts = await runProgram([
    'restore',
    '--from',
    join(folder, 'var/tmp/back', target),
    '--check',
    '--data-dir',
    join(folder, 'none'),
  ]);
  expect(inParts.code, inParts.stderr).toBe(0);
  expect(timer).toContain('OnCalendar=');
});
