/**
 * Schedules on two instances, with kill -9 and SIGTERM of the one that runs them: every time is run by one, and whatever a run
 * stores is stored once.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DetailedSchedule } from '../../src/contract/wire/schedules.js';
import type { DetailedSegment } from '../../src/contract/wire/segments.js';
import { endEverything, eventually, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';
import { type ServerStage, serverStage } from './support/stage.js';

let stage: ServerStage;
let one: RunningService;
beforeAll(async () => {
  stage = await serverStage();
  one = await stage.start();
  await sql('CREATE TABLE stored (schedule text)');
});
afterAll(async () => {
  await endEverything();
  await stage.close();
});

async function sql(text: string): Promise<Record<string, unknown>[]> {
  const response = await call(one.url, 'POST', '/api/cdp/sql', { token: stage.token, body: { sql: text } });
  expect(response.status, response.text).toBe(200);
  return response.body.rows as Record<string, unknown>[];
}

async function save(name: string, more = ''): Promise<void> {
  const body = { sql: `INSERT INTO stored VALUES ('${name}')${more}`, cron: '0 0 1 1 *' };
  const response = await call(one.url, 'PUT', `/api/cdp/schedules/${name}`, { token: stage.token, body });
  expect(response.status, response.text).toBe(200);
}

async function read(name: string): Promise<DetailedSchedule> {
  const response = await call(one.url, 'GET', `/api/cdp/schedules/${name}`, { token: stage.token });
  expect(response.status, response.text).toBe(200);
  return response.body.schedule as DetailedSchedule;
}

const makeDue = (like: string) => stage.query('UPDATE cdp.schedules SET next_at = now() WHERE name LIKE $1', [like]);

/** As if the instance that was killed had been silent for long. */
const expireClaims = () => stage.query('UPDATE cdp.schedules SET claimed_until = now() WHERE run_id IS NOT NULL');

const storedBy = async (name: string) =>
  Number((await sql(`SELECT count(*) AS n FROM stored WHERE schedule = '${name}'`))[0]?.['n']);

/** @returns the last run */
async function endOf(name: string, runs: number) {
  await eventually(`${runs} runs of ${name} end`, async () => {
    const { runs: all, running } = await read(name);
    return all.length === runs && !running;
  });
  return (await read(name)).runs[0];
}

describe('two instances', () => {
  const ROUNDS = 8;
  it('run each of some schedules once at each of its times', async () => {
    const two = await stage.start();
    const names = Array.from({ length: 6 }, (_, i) => `both_${i}`);
    for (const name of names) await save(name);
    for (let round = 1; round <= ROUNDS; round++) {
      await makeDue('both_%');
      for (const name of names) await endOf(name, round);
    }
    const claims = await stage.query<{ n: string }>(
      "SELECT count(*) AS n FROM cdp.schedule_runs WHERE schedule LIKE 'both_%' AND outcome = 'ok' AND attempts = 1",
    );
    expect(Number(claims[0]?.n)).toBe(ROUNDS * names.length);
    for (const name of names) expect(await storedBy(name)).toBe(ROUNDS);
    expect((await two.end()).code).toBe(0);
  }, 120_000);
});

describe('an instance that runs a schedule', () => {
  it('is killed: another one does the run again, once', async () => {
    await save('killed', '; SELECT pg_sleep(3)');
    await makeDue('killed');
    await eventually('it runs', async () => (await read('killed')).running);
    const two = await stage.start();
    await one.end('SIGKILL');
    one = two;
    // Nobody has it yet: the dead instance might be alive.
    expect(await read('killed')).toMatchObject({ running: true, runs: [{ attempts: 1 }] });
    await expireClaims();
    expect(await endOf('killed', 1)).toMatchObject({ outcome: 'ok', attempts: 2, rows: 1 });
    expect(await storedBy('killed')).toBe(1);
  }, 120_000);

  it('is asked to stop: the next one goes on at once', async () => {
    await save('stopped', '; SELECT pg_sleep(4)');
    await makeDue('stopped');
    await eventually('it runs', async () => (await read('stopped')).running);
    expect((await one.end()).code).toBe(0);
    one = await stage.start();
    expect(await endOf('stopped', 1)).toMatchObject({ outcome: 'ok', attempts: 1 });
    expect(await storedBy('stopped')).toBe(1);
  }, 120_000);

  it('is asked to stop in a forced run of a segment: it stays forced', async () => {
    const { token } = stage;
    const path = '/api/cdp/segments/forced';
    const saveSegment = async (query: string) => {
      const body = { sql: query, cron: '0 0 1 1 *', max_change: 10 };
      expect((await call(one.url, 'PUT', path, { token, body })).status).toBe(200);
    };
    const segment = async () => (await call(one.url, 'GET', path, { token })).body.segment as DetailedSegment;
    await saveSegment('SELECT 1 AS key');
    expect((await call(one.url, 'POST', `${path}/run`, { token })).status).toBe(200);
    await saveSegment('SELECT key FROM (VALUES (2), (3)) v(key), pg_sleep(3)');
    const answer = call(one.url, 'POST', `${path}/run?force=true`, { token }).catch(() => null);
    await eventually('it runs', async () => (await segment()).running);
    expect((await one.end()).code).toBe(0);
    await answer;
    one = await stage.start();
    await eventually('it ends', async () => !(await segment()).running);
    expect((await segment()).runs).toMatchObject([{ outcome: 'ok', rows: 3 }, { outcome: 'ok' }]);
  }, 120_000);

  const KILLS = 6;
  it('is killed at any moment, again and again: what a run has stored is there once', async () => {
    await save('often');
    for (let kill = 1; kill <= KILLS; kill++) {
      await makeDue('often');
      const started = async () => (await stage.query("SELECT FROM cdp.schedule_runs WHERE schedule = 'often'")).length;
      await eventually('it has begun', async () => (await started()) === kill);
      await sleep(Math.random() * 60);
      await one.end('SIGKILL');
      await expireClaims();
      one = await stage.start();
      expect(await endOf('often', kill)).toMatchObject({ outcome: 'ok' });
      expect(await storedBy('often')).toBe(kill);
    }
  }, 300_000);

  it('kills its instance again and again: it is given up after three attempts', async () => {
    await save('deadly', '; SELECT pg_sleep(600)');
    await makeDue('deadly');
    await eventually('it runs', async () => (await read('deadly')).running);
    await stage.query("UPDATE cdp.schedule_runs SET attempts = 3 WHERE schedule = 'deadly'");
    await one.end('SIGKILL');
    await expireClaims();
    one = await stage.start();
    expect(await endOf('deadly', 1)).toMatchObject({ outcome: 'outcome_unknown' });
    expect(await storedBy('deadly')).toBe(0);
  }, 120_000);
});
