/**
 * A full disk: writes are refused clearly, reads continue, writes continue once there is room, and every response was
 * true.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, expect, it } from 'vitest';
import { endEverything, eventually, killEverything, runProgram, superuserOfProject } from '../support/program.js';
import { send, startClients } from './support/clients.js';
import { type Disk, limitedFiles, SEGMENT_BYTES, smallDisk } from './support/disk.js';
import { isOpen, type Reply, UNTRUE } from './support/ledger.js';
import { type EmbeddedStage, embeddedStageOn, onDatabase } from './support/stage.js';

afterAll(endEverything);

/** What a client may be told while there is no room. */
const TRUE_RESPONSES = [
  '200',
  '201',
  'database_unavailable',
  'disk_full',
  'outcome_unknown',
  'overloaded',
  'request_in_flight',
];

/** From the moment that there is room to the next success. */
const BACK_MS = 40_000;

const inserted = ({ status }: Reply): boolean => status === 201;

/**
 * Rows of the usual size, which leave no room in their pages, until the table can only grow past {@link SEGMENT_BYTES}.
 */
const MAKE_BALLAST = `INSERT INTO data.ledger (batch, note)
  SELECT 'ballast', repeat('x', 32) FROM generate_series(1, ${Math.ceil(SEGMENT_BYTES / 80)})`;
const DROP_BALLAST = `DELETE FROM data.ledger WHERE batch = 'ballast'`;

/** Beside the service, in the project's database. */
async function run({ url, token }: EmbeddedStage, project: pg.ClientConfig, text: string): Promise<void> {
  await send(`${url}/api/cdp/sql`, token, '{"sql":"SELECT 1"}', null); // starts the server
  await onDatabase(project, (client) => client.query(text));
}

/** Another session uses up what is left of the write-ahead log. @returns how Postgres ended over it */
async function exhaustLog(project: pg.ClientConfig): Promise<string> {
  const write = async (client: pg.Client) => {
    for (let n = 0; n < 40; n++) await client.query(`SELECT pg_logical_emit_message(false, '', repeat('x', 4000000))`);
    return 'it goes on';
  };
  return onDatabase(project, write).catch((error: Error) => error.message);
}

/** Another project on the same disk. @returns its token */
async function addNeighbor(dataDir: string): Promise<string> {
  expect((await runProgram(['project', 'create', 'neighbor', '--data-dir', dataDir])).code).toBe(0);
  const made = await runProgram(['token', 'create', '--project', 'neighbor', '--json', '--data-dir', dataDir]);
  expect(made.code, made.stderr).toBe(0);
  return (JSON.parse(made.stdout) as { token: string }).token;
}

async function fillAndBreak(name: string, disk: Disk): Promise<void> {
  const stage = await embeddedStageOn(disk.dataDir, '--disk-reserve-mib', '0');
  const project = await superuserOfProject(disk.dataDir);
  const neighbor = await addNeighbor(disk.dataDir);
  const ofNeighbor = (sql: string) => send(`${stage.url}/api/cdp/sql`, neighbor, JSON.stringify({ sql }), null);
  expect((await ofNeighbor('CREATE TABLE well (n int)')).status).toBe(200);
  await run(stage, project, MAKE_BALLAST);
  const { url, token, ledger, first: service } = stage;
  const pid = service.process.pid as number;
  const clients = startClients({ url: () => url, token, ledger, count: 8, pauseMs: 10 });
  const since = (at: number) => ledger.replies.filter((reply) => reply.at > at);
  const served = (after: number) =>
    eventually('inserts succeed', () => Promise.resolve(since(after).filter(inserted).length > 20));
  /** @returns ms until the first insert is stored */
  const backAfter = async () => {
    const start = Date.now();
    await disk.makeRoom(pid);
    await served(start);
    return (
      Math.min(
        ...since(start)
          .filter(inserted)
          .map(({ at }) => at),
      ) - start
    );
  };
  try {
    await served(0);
    await disk.fill(pid);
    // What was on its way, and what fits where there is a little room left in a page.
    await sleep(1_000);
    const full = Date.now();
    const reads: Reply[] = [];
    for (let n = 0; n < 15; n++) {
      const sql = `SELECT count(*) FROM ledger WHERE place = ${n}`;
      reads.push(await send(`${url}/api/cdp/sql`, token, JSON.stringify({ sql }), null));
      reads.push(await ofNeighbor('SELECT count(*) FROM well'));
      await sleep(50);
    }
    const ready = (await (await fetch(`${url}/readyz`)).json()) as object;
    const writes = since(full);
    const stored = writes.filter(inserted).length;
    const afterFull = await backAfter();

    await disk.break(pid);
    const end = await exhaustLog(project);
    await sleep(2_000);
    const healthy = await fetch(`${url}/healthz`);
    const afterBreak = await backAfter();
    await eventually(
      'the neighbor writes',
      async () => (await ofNeighbor('INSERT INTO well VALUES (1)')).status === 200,
    );
    const made = await runProgram(['token', 'create', '--project', 'neighbor', '--data-dir', disk.dataDir]);
    expect(made.code, made.stderr).toBe(0);
    console.log(`${name}:`, { reads: reads.length, writes: writes.length, stored, end, afterFull, afterBreak });

    expect(reads.filter(({ status }) => status !== 200)).toEqual([]);
    expect(writes.length).toBeGreaterThan(50);
    expect(stored / writes.length, 'stored where there was no room').toBeLessThan(0.2);
    expect(end).not.toBe('it goes on');
    expect(healthy.status).toBe(200);
    if (disk.isFull) expect(ready).toMatchObject({ success: true, message: 'degraded', disk: 'full' });
    expect(Math.max(afterFull, afterBreak)).toBeLessThan(BACK_MS);
  } finally {
    await clients.stop();
  }
  await run(stage, project, DROP_BALLAST);
  const verdict = await stage.compare();
  console.log(`${name}:`, verdict, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(Object.keys(ledger.codes).filter((code) => !TRUE_RESPONSES.includes(code))).toEqual([]);
  for (const { key, replies } of ledger.batches) {
    for (const reply of replies.filter(({ status }) => status === 503)) {
      // A batch without a key whose outcome is open must not be repeated blindly.
      expect(Number(reply.retryAfter) > 0, `${reply.code}: Retry-After`).toBe(!(isOpen(reply) && key === null));
    }
  }
  expect(Math.max(...ledger.replies.map(({ ms }) => ms)), 'the longest that anybody waited').toBeLessThan(20_000);
  expect(service.log()).toContainEqual(
    expect.objectContaining({
      msg: 'database unavailable',
      cause: expect.stringMatching(`SQLSTATE ${disk.sqlstate}`) as string,
    }),
  );
  const hasLogged = (message: string) => service.log().some(({ msg }) => msg === message);
  expect(hasLogged('audit entries are lost')).toBe(false);
  expect((await service.end()).code).toBe(0);
}

async function onDisk(name: string, disk: Disk): Promise<void> {
  try {
    await fillAndBreak(name, disk);
  } finally {
    await killEverything();
    await disk.close();
  }
}

it('if files cannot grow, writes get 503 and reads continue; writes work again once files can grow', async () => {
  await onDisk('limited files', await limitedFiles());
});

it('a full disk behaves the same, if the machine can mount one', async () => {
  const disk = await smallDisk();
  if (disk === null) console.log('full disk: there is no right to mount one');
  else await onDisk('full disk', disk);
});
