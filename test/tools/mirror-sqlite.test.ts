/** The example that mirrors a table into SQLite: it is killed again and again while the table is written to. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { root } from '../docs/markdown.js';
import { eventually } from '../support/program.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

const python = '/usr/bin/python3';

let service: TestService;
let project: TestProject;
let folder: string;
let mirror: ChildProcess | undefined;
let said = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdp-mirror-'));
  service = await startOwnService();
  project = await service.project();
  await project.call('PUT', '/api/cdp/feed', { body: {} });
  project = await project.seenAnew();
});
afterEach(kill);
afterAll(async () => {
  await service.close();
  await rm(folder, { recursive: true, force: true });
});

function start(table: string): ChildProcess {
  const env = { CDP_URL: service.url, CDP_TOKEN: project.token, PYTHONPATH: join(root, 'python/src') };
  said = '';
  mirror = spawn(python, [join(root, 'examples/mirror-sqlite/mirror.py'), table, join(folder, `${table}.db`)], { env });
  mirror.stderr?.on('data', (text: Buffer) => (said += text.toString()));
  return mirror;
}

async function kill(): Promise<void> {
  if (mirror === undefined || mirror.exitCode !== null || mirror.signalCode !== null) return;
  mirror.kill('SIGKILL');
  await once(mirror, 'close');
}

const run = promisify(execFile);

/** The rows that the mirror has, in the order of their keys; null: none yet. */
async function mirrored(table: string): Promise<unknown> {
  const program = `import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.row_factory = sqlite3.Row
print(json.dumps([dict(row) for row in db.execute(f'SELECT * FROM {sys.argv[2]} ORDER BY k')]))`;
  const { stdout } = await run(python, ['-c', program, join(folder, `${table}.db`), table], {
    maxBuffer: 64 * 1024 * 1024,
  }).catch(() => ({ stdout: 'null' }));
  return JSON.parse(stdout);
}

async function untilSame(table: string): Promise<void> {
  const rows = await project.rows(`SELECT * FROM ${table} ORDER BY k`);
  let last: unknown;
  await eventually('the mirror is the table', async () => {
    if (mirror?.exitCode !== null) throw new Error(`The mirror has ended: ${said}`);
    last = await mirrored(table);
    return JSON.stringify(last) === JSON.stringify(rows);
  }).catch((error: unknown) => {
    if (mirror?.exitCode === null) expect(last).toEqual(rows);
    throw error;
  });
}

it('is the table at the end, whatever was done to both', { timeout: 240_000 }, async () => {
  await project.rows('CREATE TABLE things (k bigint PRIMARY KEY, n int, text text, list jsonb)');
  await project.rows(`INSERT INTO things SELECT i, 0, repeat(md5(i::text), 200), '[1, {"a": null}]'
    FROM generate_series(1, 2000) i RETURNING k`);
  // Long values that are not compressed are stored apart, and not sent if they stay the same.
  await project.rows('ALTER TABLE things ALTER text SET STORAGE EXTERNAL');
  start('things');
  let isWriting = true;
  const killing = (async () => {
    for (let n = 0; isWriting; n++) {
      await new Promise((resolve) => setTimeout(resolve, 300 + 400 * (n % 4)));
      await kill();
      start('things');
    }
  })();
  const of = (n: number) => `k % 37 = ${n % 37}`;
  for (let n = 0; n < 60; n++) {
    await project.rows(`UPDATE things SET n = n + 1 WHERE ${of(n)} RETURNING k`);
    await project.rows(`UPDATE things SET k = k + 1000000 WHERE ${of(n + 1)} AND k < 5000 RETURNING k`);
    await project.rows(`DELETE FROM things WHERE ${of(n + 2)} AND k % 3 = 0 RETURNING k`);
    await project.rows(`INSERT INTO things SELECT i, ${n}, repeat('${n}', 5000), NULL
      FROM generate_series(${10_000 + 50 * n}, ${10_049 + 50 * n}) i RETURNING k`);
    if (n === 20) await project.rows('ALTER TABLE things ADD COLUMN more int DEFAULT 7');
    if (n === 40) await project.rows('TRUNCATE things; INSERT INTO things (k, n) VALUES (1, 1), (37, 2)');
  }
  isWriting = false;
  await killing;
  await untilSame('things');
  expect(await mirrored('things')).not.toHaveLength(0);
});

it('reads the table again if its cursor has expired', { timeout: 120_000 }, async () => {
  await project.rows('CREATE TABLE few (k int PRIMARY KEY)');
  start('few');
  await project.rows('INSERT INTO few VALUES (1) RETURNING k');
  await untilSame('few');
  await kill();
  await project.call('DELETE', '/api/cdp/feed');
  await project.rows('DELETE FROM few RETURNING k');
  await project.rows('INSERT INTO few VALUES (2) RETURNING k');
  await project.call('PUT', '/api/cdp/feed', { body: {} });
  project = await project.seenAnew();
  start('few');
  await untilSame('few');
  expect(said).toContain('cursor_expired');
  expect(said).toContain('reading the table again');
});

it('ends if the table is dropped', async () => {
  await project.rows('CREATE TABLE gone (k int PRIMARY KEY)');
  const running = start('gone');
  await untilSame('gone');
  await project.rows('DROP TABLE gone');
  const [code] = (await once(running, 'close')) as [number];
  expect(code).toBe(1);
  expect(said).toContain('no longer in the feed');
});
