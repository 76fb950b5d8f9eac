/**
 * A machine is lost under load: the installation comes back from its backup folder alone, with every row that was
 * acknowledged before the end of the last archived segment in it, and the old one stays out of the way.
 */
import { existsSync } from 'node:fs';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  newDataDir,
  newFolder,
  postmastersIn,
  runProgram,
  serverOf,
  startProgram,
  startServe,
  superuserOfProject,
} from '../support/program.js';
import { call } from '../support/service.js';
import { UNTRUE } from './support/ledger.js';
import { embeddedStage, onDatabase } from './support/stage.js';

afterAll(endEverything);

const WRITERS = 6;
const BACKUPS = 4;

interface Row {
  readonly name: string;
  /** When its response came. */
  readonly at: number;
}

/** Writers of a row at a time. @returns what was acknowledged */
function startWriters(url: string, token: string) {
  const acknowledged: Row[] = [];
  let isOver = false;
  const write = async (writer: number) => {
    for (let n = 0; !isOver; n++) {
      const name = `${writer}-${n}`;
      const body = [{ batch: name, place: 0, size: 1, note: 'x'.repeat(500) }];
      const response = await call(url, 'POST', '/api/cdp/data/ledger', { token, body }).catch(() => null);
      if (response?.status === 201) acknowledged.push({ name, at: Date.now() });
    }
  };
  const writers = Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
  return {
    acknowledged,
    stop: async () => {
      isOver = true;
      await writers;
    },
  };
}

async function cdp(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram(args);
  expect(code, stderr).toBe(0);
  return stdout;
}

const sql = (url: string, token: string, text: string) =>
  call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } });

/** Completes a segment. @returns its name, and a time before which everything acknowledged is in it or an earlier one */
async function completeSegment(dataDir: string): Promise<{ segment: string; at: number }> {
  const at = Date.now();
  const text = 'SELECT pg_walfile_name(pg_switch_wal() - 1) AS segment';
  const segment = await onDatabase(await superuserOfProject(dataDir), async (client) => {
    const { rows } = await client.query<{ segment: string }>(text);
    return rows[0]?.segment ?? '';
  });
  return { segment, at };
}

it('every row acknowledged before the end of the last archived segment is there', async () => {
  const target = join(await newFolder(), 'target');
  const stage = await embeddedStage('--backup-to', target, '--backup-at', '0 3 1 1 *');
  const { dataDir, url, token, first } = stage;
  const own = ['--data-dir', dataDir];
  await cdp('project', 'archive', 'default', 'on', ...own);
  await cdp('project', 'create', 'other', ...own);
  const newToken = async () =>
    JSON.parse(await cdp('token', 'create', '--project', 'default', '--json', ...own)) as { id: string; token: string };
  const [kept, revoked] = [await newToken(), await newToken()];
  await cdp('token', 'revoke', revoked.id, ...own);

  const writers = startWriters(url, token);
  for (let i = 0; i < BACKUPS; i++) {
    await cdp('backup', '--to', target, ...own);
    const before = writers.acknowledged.length;
    await eventually('rows are written', () => Promise.resolve(writers.acknowledged.length > before + 50));
  }
  // What the service copies by itself, after the last backup.
  const { segment, at } = await completeSegment(dataDir);
  const archive = join(target, 'archive', await serverOf(dataDir));
  await eventually('the segment is in the folder', () => Promise.resolve(existsSync(join(archive, segment))));
  const copied = (await readdir(archive)).length;

  first.process.kill('SIGKILL');
  for (const pid of await postmastersIn(dataDir)) process.kill(pid, 'SIGKILL');
  await first.ended;
  await writers.stop();
  // It comes back later.
  const old = `${dataDir}-old`;
  await rename(dataDir, old);
  const { acknowledged } = writers;
  const archived = acknowledged.filter((row) => row.at < at);
  expect(archived.length).toBeGreaterThan(BACKUPS * 50);
  expect(acknowledged.length).toBeGreaterThan(archived.length);

  const restored = await newDataDir();
  const from = ['restore', '--from', target, '--data-dir', restored];
  const killed = startProgram(from);
  await eventually(
    'a project is being restored',
    async () => (await readdir(join(restored, 'postgres/projects')).catch(() => [])).length > 0,
  );
  await killed.end('SIGKILL');
  const refused = await runProgram(['serve', '--port', '0', '--data-dir', restored]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(
    `A restore of the data folder ${restored} was interrupted. Repeat it with cdp restore --from, or remove the folder`,
  );
  const again = await runProgram(from);
  expect(again.code, again.stderr).toBe(0);

  const service = await startServe(['--data-dir', restored, '--backup-to', target]);
  expect((await sql(service.url, token, 'SELECT 1')).status).toBe(200);
  const found = await onDatabase(await superuserOfProject(restored), async (client) => {
    const text = 'SELECT batch, count(*)::int AS n FROM data.ledger GROUP BY batch';
    return (await client.query<{ batch: string; n: number }>(text)).rows;
  });
  const names = new Set(found.map(({ batch }) => batch));
  console.log('machine lost:', {
    acknowledged: acknowledged.length,
    beforeTheSegment: archived.length,
    restored: found.length,
    segments: copied,
  });
  expect(archived.filter(({ name }) => !names.has(name)).slice(0, 20), UNTRUE).toEqual([]);
  expect(found.filter(({ n }) => n !== 1)).toEqual([]);
  expect((await sql(service.url, kept.token, 'SELECT 1')).status).toBe(200);
  expect((await sql(service.url, revoked.token, 'SELECT 1')).status).toBe(401);
  expect((await call(service.url, 'POST', '/api/cdp/data/ledger', { token, body: [{ batch: 'later' }] })).status).toBe(
    201,
  );
  await cdp('backup', '--to', target, '--data-dir', restored);

  const back = await runProgram(['serve', '--port', '0', '--data-dir', old, '--backup-to', target]);
  expect(back.code).toBe(1);
  expect(back.stdout + back.stderr).toContain('another service continues it');
  const late = await runProgram(['backup', '--to', target, '--data-dir', old]);
  expect([late.code, late.stderr]).toEqual([1, expect.stringContaining('another service continues it')]);
  await cdp('backup', 'verify', target);
  expect((await service.end()).code).toBe(0);
});
