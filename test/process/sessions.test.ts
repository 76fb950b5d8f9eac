/** How a backup, a rename, and the deletion and restore of its project affect a session of the Postgres port. */
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { errorsIn, query, RawClient, sqlstate } from '../postgres-port/connect.js';
import {
  endEverything,
  firstToken,
  freePort,
  newFolder,
  preparedDataDir,
  runProgram,
  startServe,
} from '../support/program.js';

afterAll(endEverything);

it('a session continues during a backup and a rename, and ends with its project, which is restored as saved', async () => {
  const [dataDir, folder, pgPort] = [await preparedDataDir(), await newFolder(), await freePort()];
  await startServe(['--data-dir', dataDir, '--pg-port', String(pgPort)]);
  const token = await firstToken(dataDir);
  const cdp = async (...args: string[]) => {
    const { code, stderr } = await runProgram([...args, '--data-dir', dataDir]);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  };
  const open = async (database: string) => {
    const client = await RawClient.open(pgPort);
    const response = await client.logIn('writer', database, token);
    return { client, refusal: response.filter(({ type }) => type === 'E').map(sqlstate)[0] };
  };
  const run = async (client: RawClient, sql: string) => {
    client.send(query(sql));
    const messages = await client.until('Z');
    return {
      errors: errorsIn(messages),
      rows: messages.filter(({ type }) => type === 'D').map(({ body }) => body.toString('utf8', 6)),
    };
  };

  const { client } = await open('default');
  await run(client, 'CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)');
  await run(client, 'BEGIN; INSERT INTO kept VALUES (2)');
  const file = join(folder, 'default.cdp');
  await cdp('backup', file, '--project', 'default');
  await cdp('project', 'rename', 'default', 'renamed');
  expect(await run(client, 'COMMIT; SELECT n FROM kept ORDER BY n')).toEqual({ errors: [], rows: ['1', '2'] });
  // A token is remembered for a moment, with the name of its project.
  const isRefused = (database: string, code: string) =>
    vi.waitFor(async () => expect((await open(database)).refusal).toBe(code), { timeout: 20_000 });
  await isRefused('default', '3D000');
  expect((await open('renamed')).refusal).toBeUndefined();

  await cdp('project', 'delete', 'renamed', '--yes');
  expect(errorsIn(await client.until('none'))).toEqual(['57P01']);
  await isRefused('renamed', '28P01');
  await cdp('restore', file);
  const restored = await open('default');
  expect(await run(restored.client, 'SELECT n FROM kept')).toEqual({ errors: [], rows: ['1'] });
});
