/**
 * The list of places (docs/places.md) has every table, database, file and folder that a service and its commands leave
 * after real work, or show while they do it.
 */
import { type FSWatcher, watch } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { appendHistory } from '../../src/cli/remote/shell/shell.js';
import { SYSTEM_FOLDER } from '../../src/embedded/embedded-folder.js';
import { exists } from '../../src/files.js';
import { namesIn } from '../docs/places.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { person, type Person } from '../support/cdp.js';
import { connected } from '../support/postgres.js';
import {
  endEverything,
  newFolder,
  preparedDataDir,
  runProgram,
  startServe,
  superuserOf,
  superuserOfProject,
} from '../support/program.js';
import { call } from '../support/service.js';

let other: AddedServer;
let dataDir: string;
let temporary: string;
let backups: string;
let ada: Person;
let adaState: string;
let token: string;
/** Names that appeared in a folder, also for a moment. */
const seen = new Map<string, Set<string>>();
const watchers: FSWatcher[] = [];
/** Tables as `schema.table`, and databases, where the project lived at that time. */
const found = { own: [] as string[], moved: [] as string[], onOther: [] as string[] };

beforeAll(async () => {
  other = await startAddedServer(18);
  [dataDir, temporary, backups, ada] = [await preparedDataDir(), await newFolder(), await newFolder(), await person()];
  adaState = join(ada.folder, 'state');
  for (const folder of [dataDir, join(dataDir, 'postgres'), join(dataDir, 'postgres/projects'), temporary, backups])
    await watchNames(folder);
  await watchNames(ada.folder);
  await work();
});
afterAll(async () => {
  for (const watcher of watchers) watcher.close();
  await endEverything();
  await other.close();
});

/** Everything that stores something, once. */
async function work(): Promise<void> {
  const variable = variableWith(other.url);
  const surroundings = { env: { TMPDIR: temporary, [variable]: other.url } };
  const service = await startServe(['--data-dir', dataDir], surroundings);
  const cdp = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runProgram([...args, '--data-dir', dataDir], surroundings);
    if (code !== 0) throw new Error(`cdp ${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  await cdp('server', 'add', 'eu-1', '--url-env', variable);
  await cdp('project', 'create', 'shop', '--server', 'default');
  ({ token } = JSON.parse(await cdp('token', 'create', '--project', 'shop', '--json')) as { token: string });
  const send = async (path: string, body: unknown, key?: string) => {
    const headers = key === undefined ? {} : { 'idempotency-key': key };
    const { status, text } = await call(service.url, 'POST', `/api/cdp/${path}`, { token, body, headers });
    expect(status, text).toBeLessThan(300);
  };
  await send('schema/table', { table_name: 'people', columns: [{ name: 'age', type: 'INTEGER' }] });
  await send('data/people', [{ age: 36 }], 'key-1');
  const stream = { token, body: '{"age":4}\n', headers: { 'content-type': 'application/x-ndjson' } };
  expect((await call(service.url, 'POST', '/api/cdp/data/people?atomic=true', stream)).status).toBe(201);
  await send('data/people?on_error=quarantine', [{ age: 1 }, { age: 'ten' }], 'key-2');
  await send('sql', { sql: 'CREATE SCHEMA own; CREATE TABLE own.notes (text text)' }, 'key-3');
  await send('sql', { sql: 'SELECT lo_from_bytea(0, $1)', params: ['\\x00'] });
  await send('receipts/query', { keys: ['key-1', 'never'], table: 'people', settle: true });

  await cdp('project', 'archive', 'shop', 'on');
  await send('sql', { sql: 'INSERT INTO people (age) VALUES (3)' });
  await cdp('backup', join(backups, 'all.cdp'), '--jobs', '2');
  await cdp('backup', '-', '--project', 'shop');
  await cdp('restore', join(backups, 'all.cdp'), '--project', 'shop', '--as', 'copy');
  found.own = await connected(await superuserOfProject(dataDir, 'shop'), tablesIn);

  await commandsOfPerson(service.url);

  // With an archive and schemas of its own, the other project cannot move.
  await cdp('project', 'create', 'blog', '--server', 'default');
  await cdp('project', 'move', 'blog', '--to', 'eu-1', '--mode', 'stream');
  found.onOther = await databasesOn(other.connection);
  const [moved = ''] = found.onOther.filter((name) => name.startsWith('d_'));
  found.moved = await connected({ ...other.connection, database: moved }, tablesIn);
  await cdp('project', 'move', 'blog', '--to', 'default');
  await cdp('token', 'create', '--admin');
  await runProgram(['doctor', '--data-dir', dataDir], surroundings);
}

/** With a token, in a folder of her own. */
async function commandsOfPerson(url: string): Promise<void> {
  const run = async (expected: number, args: readonly string[], input?: string) => {
    const { code, stderr } = await ada.run(args, input);
    expect(code, stderr).toBe(expected);
  };
  await run(0, ['login', '--url', url], `${token}\n`);
  await run(0, ['use', 'default']);
  await ada.write('people.csv', 'age\n1\nten\n3\n');
  await run(4, ['import', 'people.csv', '--table', 'people']);
  // Interrupted, so that its journal stays.
  await ada.write('more.csv', 'age\n1\neleven\n');
  await run(1, ['import', 'more.csv', '--table', 'people', '--strict']);
  await run(0, ['export', '--table', 'people', '--output', 'people.ndjson']);
  vi.stubEnv('XDG_STATE_HOME', adaState);
  await appendHistory('SELECT 1');
  vi.unstubAllEnvs();
}

async function watchNames(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const names = new Set<string>();
  seen.set(folder, names);
  // A change of the folder's own mode comes with its own name.
  const note = (name: string | null) => void (name === null || name === basename(folder) || names.add(name));
  watchers.push(watch(folder, (_, name) => note(name)));
}

/** Tables, views and sequences outside Postgres's own schemas. */
async function tablesIn(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT nspname || '.' || relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
     WHERE relkind NOT IN ('i', 'I', 'c') AND nspname <> 'information_schema' AND nspname !~ '^pg_' ORDER BY 1`,
  );
  return rows.map(({ name }) => name);
}

const databasesOn = (connection: pg.ClientConfig): Promise<string[]> =>
  connected(connection, async (client) => {
    const { rows } = await client.query<{ datname: string }>('SELECT datname FROM pg_database');
    return rows.map(({ datname }) => datname);
  });

const AREAS = {
  project: "A project's database",
  control: 'The control database',
  servers: 'Databases of a Postgres server',
  data: 'The data folder',
  temporary: 'Folders for temporary files',
  machine: '/var/lib/cdp-data-engine',
  files: 'Files that a command was told to write',
  config: 'Configuration of the command line',
  state: 'State of the command line',
} as const;

const namesOf = (area: keyof typeof AREAS): string[] => namesIn(AREAS[area]);

/** Whether a path is a place of the area, in one, or a folder around one. A file that is being replaced has a suffix. */
function isListed(path: string, area: keyof typeof AREAS): boolean {
  const parts = path.replace(/\.\d+-[0-9a-f]{12}$/, '').split('/');
  return namesOf(area).some((name) => {
    const wanted = name.replace(/\/$/, '').split('/');
    if (parts.length > wanted.length && !name.endsWith('/')) return false;
    return parts.every((part, i) => i >= wanted.length || matches(part, wanted[i] ?? ''));
  });
}

const matches = (part: string, wanted: string): boolean =>
  new RegExp(`^${wanted.replace(/[.\\+*?^$()[\]{}|]/g, '\\$&').replace(/<[^>]+>/g, '.+')}$`).test(part);

/** All paths below a folder, except in folders that are a place as a whole. */
async function pathsIn(folder: string, area: keyof typeof AREAS, below = ''): Promise<string[]> {
  const paths: string[] = [];
  for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
    const path = join(below, entry.name);
    paths.push(path);
    const isWhole = namesOf(area).some((name) => {
      const wanted = name.split('/');
      const parts = path.split('/');
      return (
        name.endsWith('/') &&
        parts.length === wanted.length - 1 &&
        parts.every((part, i) => matches(part, wanted[i] ?? ''))
      );
    });
    if (entry.isDirectory() && !isWhole) paths.push(...(await pathsIn(folder, area, path)));
  }
  return paths;
}

it('has the tables of the control database, and no others', async () => {
  expect(await connected(superuserOf(dataDir), tablesIn)).toEqual(namesOf('control').sort());
});

it("has the service's tables in a project's database, on a server of its own and on a shared one, and no others", () => {
  const ofService = namesOf('project').filter((name) => name.startsWith('_cdp.'));
  expect(found.own).toEqual([...ofService, 'data.people', 'own.notes'].sort());
  expect(found.moved).toEqual(ofService.sort());
});

it('has every database on the servers', async () => {
  const known = (name: string) => namesOf('servers').some((wanted) => matches(name, wanted.replace(/^<.*>$/, 'cdp')));
  const embedded = [superuserOf(dataDir), await superuserOfProject(dataDir, 'shop')];
  const all = [found.onOther, ...(await Promise.all(embedded.map(databasesOn)))].flat();
  expect(all.filter((name) => !known(name))).toEqual([]);
  expect(found.onOther.filter((name) => name.startsWith('d_'))).toHaveLength(1);
});

it('has every file and folder in the data folder, also those that were there for a moment', async () => {
  const left = await pathsIn(dataDir, 'data');
  expect(left.some((path) => path.startsWith('postgres/archive/'))).toBe(true);
  const moments = ['', 'postgres', 'postgres/projects'].flatMap((below) =>
    [...(seen.get(join(dataDir, below)) ?? [])].map((name) => join(below, name)),
  );
  expect(moments.some((name) => name.startsWith('cdp-'))).toBe(true);
  expect([...left, ...moments].filter((path) => !isListed(path, 'data'))).toEqual([]);
});

it('has every folder for temporary files, and none is left', async () => {
  const names = [...(seen.get(temporary) ?? [])];
  expect(names.filter((name) => !isListed(name, 'temporary'))).toEqual([]);
  expect(await readdir(temporary)).toEqual([]);
});

it.runIf(process.getuid?.() === 0)('has every folder of the system', async () => {
  const names = (await exists(SYSTEM_FOLDER)) ? await readdir(SYSTEM_FOLDER) : [];
  expect(names.filter((name) => !isListed(name, 'machine'))).toEqual([]);
});

it('has every file beside a backup and an export, and of the command line', async () => {
  const inBackups = [...(seen.get(backups) ?? [])];
  expect(inBackups.some((name) => name.startsWith(`all.cdp.${hostname()}-`))).toBe(true);
  const mine = new Set(['people.csv', 'more.csv', 'config', 'state']);
  const written = [...(seen.get(ada.folder) ?? [])].filter((name) => !mine.has(name));
  expect(written).toContain('people.csv.refused.ndjson');
  const known = namesOf('files').map((name) =>
    name.replace('<backup>', 'all.cdp').replace('<export>', 'people.ndjson'),
  );
  expect([...inBackups, ...written].filter((name) => !known.some((one) => matches(name, one)))).toEqual([]);
  expect((await pathsIn(join(ada.folder, 'config/cdp'), 'config')).sort()).toEqual(['profile', 'profiles.json']);
  const state = await pathsIn(join(adaState, 'cdp'), 'state');
  expect(state.filter((path) => !isListed(path, 'state'))).toEqual([]);
  expect(state.map((path) => path.replace(/\/.*/, '')).sort()).toEqual(['imports', 'imports', 'sql-history']);
});
