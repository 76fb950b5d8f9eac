/** `cdp project move` as a process: what it prints, and what Ctrl-C does before and after the switch. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ADVISORY_LOCKS } from '../../src/tenancy/locks.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import {
  endEverything,
  eventually,
  preparedDataDir,
  runProgram,
  startProgram,
  startServe,
} from '../support/program.js';

let other: AddedServer;
let dataDir: string;
let url: string;
beforeAll(async () => {
  other = await startAddedServer(18);
  dataDir = await preparedDataDir();
  const variable = variableWith(other.url);
  ({ url } = await startServe(['--data-dir', dataDir], { env: { [variable]: other.url } }));
  await run('server', 'add', 'eu-1', '--url-env', variable);
  await run('project', 'create', 'shop', '--server', 'default');
  [token, admin] = [await tokenOf('--project', 'shop'), await tokenOf('--admin')];
  await sql('CREATE TABLE a AS SELECT n FROM generate_series(1, 1000) n');
});
afterAll(async () => {
  await endEverything();
  await other.close();
});

let token: string;
let admin: string;
const run = (...args: string[]) => runProgram([...args, '--data-dir', dataDir]);

const tokenOf = async (...whose: string[]): Promise<string> =>
  (JSON.parse((await run('token', 'create', ...whose, '--json')).stdout) as { token: string }).token;

async function sql(text: string): Promise<unknown[]> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const response = await fetch(`${url}/api/cdp/sql`, { method: 'POST', headers, body: JSON.stringify({ sql: text }) });
  const body = (await response.json()) as { rows: unknown[] };
  if (response.status !== 200) throw new Error(JSON.stringify(body));
  return body.rows;
}

interface Move {
  state: string;
  mode: string;
  to: string;
}

async function moves(project = 'shop'): Promise<Move[]> {
  const headers = { authorization: `Bearer ${admin}` };
  const response = await fetch(`${url}/api/cdp/admin/moves?project=${project}`, { headers });
  return ((await response.json()) as { moves: Move[] }).moves;
}

/** A move that is interrupted when it has that state. */
async function interrupted(state: string, to: string) {
  const moving = startProgram(['project', 'move', 'shop', '--to', to, '--data-dir', dataDir]);
  await eventually(`it is ${state}`, async () =>
    (await moves()).some((move) => move.to === to && move.state === state),
  );
  return moving.end('SIGINT');
}

it('Ctrl-C undoes the move before the switch; after it, the command says that the project has moved', async () => {
  // The copy of this row is never made: there is only one database that is called so.
  await sql(`CREATE FUNCTION waits(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    IF current_database() <> 'project' THEN PERFORM pg_sleep(3600); END IF; RETURN n; END $$`);
  await sql('CREATE TABLE b (n integer, m integer GENERATED ALWAYS AS (waits(n)) STORED)');
  await sql('INSERT INTO b VALUES (1)');
  const canceled = await interrupted('copying', 'eu-1');
  expect(canceled.stderr).toMatch(
    /^shop: preparing\n[^]*^shop: copying\n[^]*^shop: canceling\n[^]*stays on default: The move was canceled\n$/m,
  );
  expect([canceled.code, canceled.stdout]).toEqual([1, '']);
  expect(await moves()).toMatchObject([{ state: 'undone' }]);
  await sql('DROP TABLE b');

  const moved = await run('project', 'move', 'shop', '--to', 'eu-1');
  expect(moved.stdout).toMatch(/^Project shop lives on eu-1 \(1,000 rows, 0\.0 MB, \d+\.\d s without writes\)\n$/);

  const [{ datname }] = await connected(other.connection, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      "SELECT datname FROM pg_database WHERE datname LIKE 'd\\_%'",
    );
    return rows as [{ datname: string }];
  });
  // Nobody drops it there.
  await connected({ ...other.connection, database: 'cdp' }, async (client) => {
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, $2))', [datname, ADVISORY_LOCKS.database]);
    const { code, stdout, stderr } = await interrupted('switched', 'default');
    expect(stderr).toContain('shop: it lives on default already; its old copy on eu-1 is not dropped yet\n');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^Project shop lives on default \(1,000 rows, /)]);
  });
  await eventually('it is gone there', async () => (await moves()).every(({ state }) => state !== 'switched'));
  expect(await sql('SELECT count(*)::int AS n FROM a')).toEqual([{ n: 1000 }]);
});

it('a rebalance uses the given mode and pause', async () => {
  await run('project', 'create', 'blog', '--server', 'eu-1');
  await run('server', 'drain', 'eu-1');
  const refused = await run('rebalance', '--apply', '--max-pause', 'soon');
  expect([refused.code, refused.stderr]).toEqual([2, 'cdp: --max-pause takes a duration such as 30s or 5m\n']);
  const { code, stdout } = await run('rebalance', '--apply', '--mode', 'stream', '--max-pause', '5m');
  expect([code, stdout]).toEqual([0, '1 project moved\n']);
  expect(await moves('blog')).toMatchObject([{ to: 'default', mode: 'stream' }]);
});
