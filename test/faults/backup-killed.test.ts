/** kill -9 of a service while it saves into a folder: whatever the step, the folder has a whole backup. */
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BackupFolder } from '../../src/backup/folder/backup-folder.js';
import {
  endEverything,
  eventually,
  firstToken,
  newDataDir,
  newFolder,
  preparedDataDir,
  projectRoot,
  type RunningService,
  runProgram,
  startProgram,
  startServe,
} from '../support/program.js';
import { call } from '../support/service.js';

let dataDir: string;
let target: string;
let plan: string;
let service: RunningService;
const tokens = new Map<string, string>();

const PRELOAD = pathToFileURL(join(projectRoot, 'test/faults/support/kill-at-step.mjs')).href;

const start = () =>
  startServe(['--data-dir', dataDir], {
    env: { NODE_OPTIONS: `--import=${PRELOAD}`, CDP_TEST_FOLDER: target, CDP_TEST_PLAN: plan },
  });

async function cdp(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram(args);
  expect(code, stderr).toBe(0);
  return stdout;
}

async function sql(url: string, project: string, text: string) {
  const { status, body } = await call(url, 'POST', '/api/cdp/sql', {
    token: tokens.get(project) ?? '',
    body: { sql: text },
  });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows as { n: number }[];
}

/** How many rows each project has, and those that were in it when the last backup that ended began. */
let [rows, saved] = [0, 0];

async function insert(): Promise<void> {
  for (const project of tokens.keys()) await sql(service.url, project, 'INSERT INTO kept SELECT 1');
  rows++;
}

async function backUp(): Promise<void> {
  await cdp('backup', '--to', target, '--data-dir', dataDir);
  saved = rows;
}

beforeAll(async () => {
  dataDir = await preparedDataDir();
  const folder = await newFolder();
  [target, plan] = [join(folder, 'target'), join(folder, 'plan')];
  service = await start();
  tokens.set('default', await firstToken(dataDir));
  await cdp('project', 'create', 'shop', '--data-dir', dataDir);
  const made = await cdp('token', 'create', '--project', 'shop', '--json', '--data-dir', dataDir);
  tokens.set('shop', (JSON.parse(made) as { token: string }).token);
  for (const project of tokens.keys()) await sql(service.url, project, 'CREATE TABLE kept (n int)');
});
afterAll(endEverything);

/** Runs a backup, which ends with the service. @param end kills the service */
async function killedBackup(end?: (backup: Promise<unknown>) => Promise<unknown>, ...more: string[]): Promise<void> {
  const backup = startProgram(['backup', '--to', target, '--data-dir', dataDir, ...more]);
  await end?.(backup.ended);
  const { stderr } = await backup.ended;
  if (service.process.exitCode === null && service.process.signalCode === null) await service.end('SIGKILL');
  const { signal } = await service.ended;
  expect(signal, stderr).toBe('SIGKILL');
}

async function faults(): Promise<string[]> {
  const backup = await BackupFolder.open(target);
  const found: string[] = [];
  for await (const fault of backup.faults(new AbortController().signal)) found.push(fault);
  return found;
}

/** Starts what is in the folder. */
async function expectRestorable(): Promise<void> {
  const result = JSON.parse(await cdp('backup', 'verify', target, '--start', '--json')) as {
    projects: { name: string; tables: { rows: number }[] }[];
  };
  expect(result.projects.map(({ name }) => name).toSorted()).toEqual(['default', 'shop']);
  for (const { name, tables } of result.projects) {
    expect(tables[0]?.rows, name).toBeGreaterThanOrEqual(saved);
    expect(tables[0]?.rows, name).toBeLessThanOrEqual(rows);
  }
}

/** The next backup removes what was half. */
async function expectNextWhole(): Promise<void> {
  await rm(plan, { force: true });
  service = await start();
  await insert();
  await backUp();
  expect(await faults()).toEqual([]);
  for (const rest of ['.new', '.old']) expect(existsSync(join(target, rest)), rest).toBe(false);
}

/** The numbers of the steps to be killed at: each rename and removal, and the first and the last file of each part. */
async function stepsToKillAt(): Promise<number[]> {
  await insert();
  await writeFile(plan, '0');
  await backUp();
  await service.end('SIGKILL');
  const steps = (await readFile(`${plan}.steps`, 'utf8')).trimEnd().split('\n');
  await rm(`${plan}.steps`);
  const opened = (part: string) => steps.flatMap((step, i) => (step.startsWith(`open .new/${part}/`) ? [i] : []));
  const chosen = new Set(steps.flatMap((step, i) => (/^(?:rename|rm) /.test(step) ? [i] : [])));
  for (const part of ['projects/default', 'projects/shop', 'control']) {
    const files = opened(part);
    expect(files.length, part).toBeGreaterThan(100);
    for (const step of [files[0], files.at(-1)]) chosen.add(step as number);
  }
  return [...chosen].toSorted((a, b) => a - b).map((step) => step + 1);
}

it('at each rename and removal: the folder is whole, can be restored, and the next backup removes what was half', async () => {
  await backUp();
  const steps = await stepsToKillAt();
  expect(steps.length).toBeGreaterThan(15);
  for (const [i, step] of steps.entries()) {
    await expectNextWhole();
    await insert();
    await writeFile(plan, String(step));
    await killedBackup();
    const done = (await readFile(`${plan}.steps`, 'utf8')).trimEnd().split('\n');
    expect(done.length).toBe(step);
    await rm(`${plan}.steps`);
    expect(await faults(), `before ${done.at(-1)}`).toEqual([]);
    if (i % 5 === 1) await expectRestorable();
  }
}, 1_200_000);

it('at any moment, of the first backup too', async () => {
  await rm(target, { recursive: true });
  await expectNextOfNew();
  for (const ms of [200, 700, 1_400]) {
    await insert();
    await killedBackup(async (ended) => {
      await Promise.race([sleep(ms + Math.random() * 300), ended]);
      await service.end('SIGKILL');
    });
    expect(await faults(), `killed after ${ms} ms`).toEqual([]);
    await expectNextWhole();
  }
  await expectRestorable();
});

/** A first backup that was killed has left no backup, and the next one makes it. */
async function expectNextOfNew(): Promise<void> {
  await rm(plan, { force: true });
  service = await start();
  await insert();
  await killedBackup(async () => {
    await eventually('it writes', () => Promise.resolve(existsSync(join(target, '.new/projects'))));
    await service.end('SIGKILL');
  }, '--new');
  const verified = await runProgram(['backup', 'verify', target]);
  expect([verified.code, verified.stderr]).toEqual([1, expect.stringContaining('its first backup did not end')]);
  service = await start();
  await cdp('backup', '--to', target, '--new', '--data-dir', dataDir);
  saved = rows;
  expect(await faults()).toEqual([]);
}

it('the installation comes back from what a killed backup has left', async () => {
  await insert();
  await writeFile(plan, '40');
  await killedBackup();
  await rm(plan);
  expect(await faults()).toEqual([]);
  const restored = await newDataDir();
  await cdp('restore', '--from', target, '--data-dir', restored);
  service = await startServe(['--data-dir', restored]);
  for (const project of tokens.keys()) {
    const [found] = await sql(service.url, project, 'SELECT count(*)::int AS n FROM kept');
    expect(found?.n, project).toBeGreaterThanOrEqual(saved);
  }
  expect((await service.end()).code).toBe(0);
});
