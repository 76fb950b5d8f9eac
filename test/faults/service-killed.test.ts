/**
 * kill -9 of the service, under load and at any moment of its start: nothing acknowledged is lost, and nothing is done
 * twice.
 */
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import {
  endEverything,
  eventually,
  firstToken,
  newDataDir,
  postmasterOf,
  postmastersIn,
  type RunningService,
  runProgram,
  startProgram,
  startServe,
} from '../support/program.js';
import { call } from '../support/service.js';
import { UNTRUE } from './support/ledger.js';
import { startClients } from './support/clients.js';
import { embeddedStage } from './support/stage.js';

afterAll(endEverything);

const KILLS = 6;

describe('kill -9 of the service under load', () => {
  it(`${KILLS} times: every 201 is stored once and complete, and every key exactly once`, async () => {
    const stage = await embeddedStage();
    const { url, token, ledger } = stage;
    const clients = startClients({ url: () => url, token, ledger, count: 16 });
    let service: RunningService = stage.first;
    const starts: number[] = [];
    const postmaster = await postmasterOf(stage.dataDir);
    for (let kill = 0; kill < KILLS; kill++) {
      const before = ledger.batches.length;
      await sleep(Math.random() * 300);
      await eventually('requests are under way', () => Promise.resolve(ledger.batches.length > before));
      await service.end('SIGKILL');
      const next = await stage.start();
      service = next.service;
      starts.push(next.ms);
    }
    await clients.stop();
    expect(await postmasterOf(stage.dataDir), 'the control server is adopted each time').toBe(postmaster);
    const verdict = await stage.compare();
    console.log(`${KILLS} kills:`, { ...verdict, slowestStartMs: Math.max(...starts) }, ledger.codes);
    expect(verdict.wrong, UNTRUE).toEqual([]);
    expect(verdict.acknowledged).toBeGreaterThan(KILLS);
    expect(verdict.repeated, 'some keys were in doubt').toBeGreaterThan(0);
    expect(ledger.codes.hung).toBeUndefined();
    expect((await service.end()).code).toBe(0);
    expect(await postmastersIn(stage.dataDir)).toEqual([]);
  }, 400_000);
});

describe('kill -9 at any moment of the first start', () => {
  it('is repaired by the next start: one project, and a token that works', async () => {
    for (const ms of [300, 2_200]) {
      const dataDir = await newDataDir();
      const starting = startProgram(['serve', '--port', '0', '--data-dir', dataDir]);
      await sleep(ms);
      await starting.end('SIGKILL');
      expect((await (await startServe(['--data-dir', dataDir])).end()).code).toBe(0);
      const listed = await runProgram(['project', 'list', '--json', '--data-dir', dataDir]);
      expect(JSON.parse(listed.stdout), `killed after ${ms} ms`).toMatchObject([{ name: 'default', status: 'active' }]);
      const created = await runProgram(['token', 'create', '--project', 'default', '--json', '--data-dir', dataDir]);
      const { token } = JSON.parse(created.stdout) as { token: string };
      const service = await startServe(['--data-dir', dataDir]);
      const response = await call(service.url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1 AS n' } });
      expect(response.body.rows).toEqual([{ n: 1 }]);
      expect((await service.end()).code).toBe(0);
      expect(await postmastersIn(dataDir)).toEqual([]);
    }
  });
});

describe('the next start copes with a control server that was', () => {
  async function killedStage() {
    const stage = await embeddedStage();
    const sent = await call(stage.url, 'POST', '/api/cdp/sql', {
      token: stage.token,
      body: { sql: 'CREATE TABLE kept AS SELECT 7 AS n' },
    });
    expect(sent.status).toBe(200);
    await stage.first.end('SIGKILL');
    const postmaster = (await postmasterOf(stage.dataDir)) as number;
    return { stage, postmaster, lockFile: join(stage.dataDir, 'postgres/control/data/postmaster.pid') };
  }

  async function servesAgain(stage: Awaited<ReturnType<typeof embeddedStage>>) {
    const { service } = await stage.start();
    const { url, token } = stage;
    const response = await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT n FROM kept' } });
    expect(response.body.rows).toEqual([{ n: 7 }]);
    return service;
  }

  it("left running, killed too, half started, or has another program's PID in its lock files", async () => {
    const { stage, postmaster, lockFile } = await killedStage();
    let service = await servesAgain(stage);
    expect(await postmasterOf(stage.dataDir)).toBe(postmaster);

    // Both are killed, as when the machine goes down.
    await service.end('SIGKILL');
    process.kill(postmaster, 'SIGKILL');
    service = await servesAgain(stage);

    // The pid in the files belongs to another program by now.
    await service.end('SIGKILL');
    process.kill((await postmasterOf(stage.dataDir)) as number, 'SIGKILL');
    const other = spawn('sleep', ['600']);
    const socketLock = join(stage.dataDir, 'postgres/control/socket/.s.PGSQL.5432.lock');
    for (const file of [lockFile, socketLock]) {
      const content = await readFile(file, 'utf8');
      await writeFile(file, content.replace(/^\d+/, String(other.pid)));
    }
    service = await servesAgain(stage);
    expect(other.exitCode, 'the other program is left alone').toBe(null);
    other.kill();

    // Killed while Postgres is still recovering.
    await service.end('SIGKILL');
    process.kill((await postmasterOf(stage.dataDir)) as number, 'SIGKILL');
    const half = startProgram(['serve', '--port', '0', '--data-dir', stage.dataDir]);
    await eventually('Postgres is starting', async () => (await postmasterOf(stage.dataDir)) !== undefined);
    await half.end('SIGKILL');
    service = await servesAgain(stage);
    expect((await service.end()).code).toBe(0);
  });

  it('stopped by SIGTERM without a service, and is still ending', async () => {
    const { stage, postmaster } = await killedStage();
    process.kill(postmaster, 'SIGTERM');
    const service = await servesAgain(stage);
    expect((await service.end()).code).toBe(0);
  });
});

it('if two services start on one data folder at once, one serves and the other says why it does not', async () => {
  const dataDir = await newDataDir();
  const starts = [0, 1].map(() => startProgram(['serve', '--port', '0', '--data-dir', dataDir]));
  const refused = await Promise.race(starts.map(({ ended }) => ended));
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('Another service is running on this data folder');
  const serving = starts.find(({ process: { exitCode } }) => exitCode === null);
  if (serving === undefined) throw new Error('None of the two serves');
  const url = await eventually('it listens', () =>
    Promise.resolve(serving.log().find(({ msg }) => msg === 'listening')?.url as string | undefined),
  );
  const token = await firstToken(dataDir);
  expect((await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1' } })).status).toBe(200);
  expect((await serving.end()).code).toBe(0);
});
