/**
 * A project moves from its own server to another and back while eight clients write to it, and the service is killed: every response is true of the place where the project ends up, and nothing is left where it does not live.
 */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, expect, it, vi } from 'vitest';
import type { MoveState } from '../../src/contract/moves.js';
import { startAddedServer } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { endEverything, eventually, newFolder, runProgram, superuserOf } from '../support/program.js';
import { startClients } from './support/clients.js';
import { UNTRUE } from './support/ledger.js';
import { embeddedStage, onDatabase } from './support/stage.js';

afterAll(endEverything);

/** `moves-killed.test.ts` has the others. */
const KILLED_AT: readonly MoveState[] = ['preparing', 'copying', 'switched'];

/** What a client may be told: a killed service answers nothing. */
const TRUE_RESPONSES = ['200', '201', 'database_unavailable', 'outcome_unknown', 'overloaded', 'request_in_flight'];

const THERE = `SELECT datname AS name FROM pg_database WHERE datname ~ '^d_'
  UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^[wrb]_'`;

it('moves there and back, each killed in another state, lose and duplicate no row', { timeout: 400_000 }, async () => {
  const other = await startAddedServer(18);
  const stage = await embeddedStage();
  try {
    const { dataDir, ledger, token } = stage;
    const file = join(await newFolder(), 'eu-1.url');
    await writeFile(file, other.url, { mode: 0o600 });
    const cdp = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await runProgram([...args, '--data-dir', dataDir]);
      if (code !== 0) throw new Error(stderr);
      return stdout;
    };
    await cdp('server', 'add', 'eu-1', '--url-file', file);
    let service = stage.first;
    const clients = startClients({ url: () => stage.url, token, ledger, count: 8 });
    const stored = () => eventually('batches are stored', () => Promise.resolve(ledger.replies.at(-1)?.status === 201));

    const states: string[] = [];
    for (const state of KILLED_AT) {
      await stored();
      const id = await beginMove();
      const isThereOrOver = async (client: pg.Client): Promise<boolean> => {
        const { rows } = await client.query<{ over: boolean; state: string }>(
          'SELECT state = $2 OR ended_at IS NOT NULL AS over, state FROM cdp.moves WHERE id = $1',
          [id, state],
        );
        if (rows[0]?.over) states.push(rows[0].state);
        return rows[0]?.over === true;
      };
      // Asked often: some states are short.
      await onDatabase(superuserOf(dataDir), (client) =>
        vi.waitUntil(() => isThereOrOver(client), { timeout: 60_000, interval: 10 }),
      );
      await service.end('SIGKILL');
      ({ service } = await stage.start());
      await onDatabase(superuserOf(dataDir), (client) =>
        eventually('it is settled', async () => {
          const { rowCount } = await client.query('SELECT FROM cdp.moves WHERE ended_at IS NULL');
          return rowCount === 0;
        }),
      );
      expect(await leftBehind(), `killed at ${states.at(-1)}`).toEqual([]);
    }

    /** Databases, roles and folders of places where no project lives. */
    async function leftBehind(): Promise<string[]> {
      const lives = await onDatabase(superuserOf(dataDir), (client) =>
        client.query<{ names: string[] }>(
          'SELECT ARRAY[server, database_name, writer_role, reader_role] AS names FROM cdp.projects',
        ),
      );
      const there = await connected(other.connection, (client) => client.query<{ name: string }>(THERE));
      const folders = await readdir(join(dataDir, 'postgres/projects'));
      const known = new Set(lives.rows.flatMap(({ names }) => names));
      return [...there.rows.map(({ name }) => name), ...folders].filter((name) => !known.has(name));
    }

    /** @returns its id */
    async function beginMove(): Promise<string> {
      const begin = async () => {
        const [{ server } = { server: '' }] = JSON.parse(await cdp('project', 'list', '--json')) as {
          server: string;
        }[];
        const to = server === 'default' ? 'eu-1' : 'default';
        const attempt = { hasEnded: false };
        const ended = () => void (attempt.hasEnded = true);
        runProgram(['project', 'move', 'default', '--to', to, '--data-dir', dataDir]).then(ended, ended);
        return attempt;
      };
      let attempt = await begin();
      return onDatabase(superuserOf(dataDir), (client) =>
        eventually('the move has begun', async () => {
          const { rows } = await client.query<{ id: string }>('SELECT id FROM cdp.moves WHERE ended_at IS NULL');
          // To a busy machine a server may seem to be away for a moment.
          if (rows.length === 0 && attempt.hasEnded) attempt = await begin();
          return rows[0]?.id;
        }),
      );
    }

    await stored();
    // Both ways to their ends, and the last of all places is the folder.
    for (const to of ['eu-1', 'default', 'eu-1', 'default']) {
      const { code, stderr } = await runProgram(['project', 'move', 'default', '--to', to, '--data-dir', dataDir]);
      if (code !== 0) expect(stderr).toContain(`it lives on ${to} already`);
      await stored();
    }
    await clients.stop();
    const verdict = await stage.compare();
    console.log('moves:', verdict, ledger.codes, 'killed at', states);
    expect(verdict.wrong, UNTRUE).toEqual([]);
    expect(Object.keys(ledger.codes).filter((code) => !TRUE_RESPONSES.includes(code) && !/^E/.test(code))).toEqual([]);
    expect(await leftBehind()).toEqual([]);
    expect((await service.end()).code).toBe(0);
  } finally {
    await other.close();
  }
});
