/** docs/feed.md: its commands print what it says, and its snippets read what they name. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CdpClient } from '../../src/client/index.js';
import { blocks, read, root } from '../docs/markdown.js';
import { endEverything, eventually, firstToken, newFolder, preparedDataDir, startServe } from '../support/program.js';

const all = blocks(read('docs/feed.md'));
const shell = all.flatMap(({ language, text }, i) => {
  const next = all[i + 1];
  const said = next !== undefined && ['text', 'json'].includes(next.language) ? next.text : undefined;
  return language === 'sh' ? [{ text, said }] : [];
});

let url: string;
let token: string;
let environment: Record<string, string>;
let folder: string;
const running: ChildProcess[] = [];
beforeAll(async () => {
  const dataDir = await preparedDataDir();
  ({ url } = await startServe(['--data-dir', dataDir]));
  token = await firstToken(dataDir);
  folder = await newFolder();
  const bin = join(folder, 'bin');
  await mkdir(bin);
  symlinkSync(join(root, 'examples'), join(folder, 'examples'));
  writeFileSync(join(bin, 'cdp'), `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli/bin.js')} "$@"\n`, {
    mode: 0o755,
  });
  environment = {
    ...{ PATH: `${bin}:/usr/bin:${process.env.PATH}`, HOME: bin, PYTHONPATH: join(root, 'python/src') },
    ...{ URL: url, TOKEN: token, CDP_URL: url, CDP_TOKEN: token },
  };
});
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await endEverything();
});

/** What differs each time: cursors, and how much is stored. */
const comparable = (text: string): string =>
  text
    .replaceAll(/\b[0-9a-f]{8}\.[0-9a-f]+\.\d+\b/g, '<cursor>')
    .replaceAll(/\b\d+ bytes\b/g, '<bytes>')
    .trim();

const normal = (text: string): unknown => {
  const plain = comparable(text);
  return plain.startsWith('{ ') || plain.startsWith('{"success"') ? (JSON.parse(plain) as unknown) : plain;
};

async function run(text: string): Promise<string> {
  const { stdout } = await promisify(execFile)('sh', ['-euc', text], { cwd: folder, env: environment });
  return stdout;
}

it('prints what the page says, and mirrors the table', { timeout: 120_000 }, async () => {
  for (const { text, said } of shell) {
    // These go on until they are interrupted.
    if (/mirror\.py|--follow/.test(text)) {
      running.push(spawn('sh', ['-euc', `exec ${text}`], { cwd: folder, env: environment }));
      continue;
    }
    const printed = await run(text);
    if (text.startsWith('cdp feed') || said === undefined) continue;
    if (text.includes('sqlite3')) {
      const last = text.trim().split('\n').at(-1) ?? '';
      await eventually('the mirror is the table', async () => (await run(last)).trim() === said.trim());
    } else expect(normal(printed)).toEqual(normal(said));
  }
  const on = shell.find(({ text }) => text.includes('cdp feed on'));
  await run('cdp feed on');
  expect(comparable(await run('cdp feed'))).toBe(comparable(on?.said ?? ''));
});

it('reads changes with the loops of the page, in TypeScript and Python', { timeout: 60_000 }, async () => {
  const cdp = new CdpClient({ url, token });
  const { cursor } = await cdp.changesPage();
  await cdp.query(`INSERT INTO customers VALUES (50, 'eve@example.com', 'free')`);
  const [loop = '', snapshot = ''] = all.filter(({ language }) => language === 'ts').map(({ text }) => text);
  const AsyncFunction = (async () => {}).constructor as new (
    ...args: string[]
  ) => (...args: unknown[]) => Promise<void>;
  const seen: { key: unknown }[] = [];
  const stored: unknown[] = [];
  const end = new Error('enough');
  const apply = (change: { key: unknown }) => {
    seen.push(change);
    throw end;
  };
  await expect(new AsyncFunction('cdp', 'after', 'apply', loop)(cdp, cursor, apply)).rejects.toBe(end);
  const store = (row: unknown) => stored.push(row);
  const reading = expect(new AsyncFunction('cdp', 'store', 'apply', snapshot)(cdp, store, apply)).rejects.toBe(end);
  await eventually('the snapshot is read', () => Promise.resolve(stored.length === 2));
  await cdp.query('DELETE FROM customers WHERE id = 50');
  await reading;
  expect(seen).toMatchObject([
    { op: 'insert', key: { id: 50 } },
    { op: 'delete', key: { id: 50 } },
  ]);
  const python = all.find(({ language }) => language === 'python')?.text ?? '';
  const program = `from cdp_data_engine import CdpClient
def apply(change):
    print(change["op"], change["key"])
    if change["op"] == "delete": raise SystemExit
cdp, after = CdpClient(), ${JSON.stringify(cursor)}
${python}`;
  const { stdout } = await promisify(execFile)('python3', ['-c', program], { env: environment });
  expect(stdout).toBe("insert {'id': 50}\ndelete {'id': 50}\n");
});
