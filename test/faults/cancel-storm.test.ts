/**
 * Many cancel requests near the end of a statement, or when none runs, each with the next statement sent at once: no
 * cancel hits the next statement. CDP_TEST_CANCELS=1000 runs so many of each kind. What a late cancel can do is tested
 * without luck in `test/postgres-port/late-cancels.test.ts`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../support/postgres.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { cancelRequest, errorsIn, message, query, RawClient, run, SYNC } from '../postgres-port/connect.js';

const CANCELS = Number(process.env.CDP_TEST_CANCELS ?? 40);

/** Sessions at once, which are each other's load. */
const AT_ONCE = 4;

const CANCELED = '57014';

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({ 'pg-port': '0' }, server);
    project = await service.project();
    await project.rows('CREATE TABLE numbers (n int)');
  });
  afterAll(() => service.close());

  /** Each begins a statement of a few milliseconds. */
  const kinds: [string, (ms: number) => Buffer][] = [
    ['simple', (ms) => query(`SELECT pg_sleep(${ms / 1_000})`)],
    ['extended', (ms) => Buffer.concat([run(`SELECT pg_sleep(${ms / 1_000})`), SYNC])],
    [
      'COPY',
      (ms) =>
        Buffer.concat([
          query('COPY numbers FROM STDIN'),
          ...Array.from({ length: 100 * ms }, () => message('d', '1\n')),
          message('c'),
        ]),
    ],
  ];

  /** @returns how many cancels worked, and how many hit the next statement */
  async function storm(statement: (ms: number) => Buffer, times: number): Promise<{ meant: number; hit: string[] }> {
    const port = service.postgresPort ?? 0;
    const client = await RawClient.open(port);
    const messages = await client.logIn('writer', project.name, project.token);
    const key = messages.find(({ type }) => type === 'K')?.body ?? Buffer.alloc(8);
    let meant = 0;
    const hit: string[] = [];
    for (let i = 0; i < times; i++) {
      const isIdle = i % 2 === 0;
      // From shorter to longer than the way of a cancel request.
      if (!isIdle) client.send(statement(1 + Math.floor(Math.random() * 60)));
      await sleep(isIdle ? 0 : Math.random() * 3);
      const canceling = await RawClient.open(port);
      canceling.send(cancelRequest(key));
      const [first] = await Promise.all([isIdle ? [] : client.until('Z'), canceling.rest()]);
      client.send(statement(8));
      if (errorsIn(first).includes(CANCELED)) meant++;
      hit.push(...errorsIn(await client.until('Z')));
    }
    client.close();
    return { meant, hit };
  }

  it.each(kinds)('hits no later %s statement', async (kind, statement) => {
    const each = Array.from({ length: AT_ONCE }, () => storm(statement, Math.ceil(CANCELS / AT_ONCE)));
    const done = await Promise.all(each);
    const meant = done.reduce((sum, one) => sum + one.meant, 0);
    const hit = done.flatMap((one) => one.hit);
    if (CANCELS >= 1_000)
      process.stdout.write(
        `Postgres ${server.major}, ${kind}: ${CANCELS} cancels, ${meant} as meant, ${hit.length} hit the next\n`,
      );
    expect(hit).toEqual([]);
  });

  it('hits no statement of another caller over a connection of the pool', async () => {
    let meant = 0;
    const hit: string[] = [];
    const sql = (text: string, more: object = {}) =>
      project.call('POST', '/api/cdp/sql', { body: { sql: text, ...more } });
    const storm = async () => {
      for (let i = 0; i < CANCELS / AT_ONCE; i++) {
        const first = await sql(`INSERT INTO numbers SELECT 1 FROM pg_sleep(${Math.random() * 0.03})`, {
          timeout_ms: 10,
        });
        if (first.status === 504) meant++;
        const next = await sql('INSERT INTO numbers SELECT 2 FROM pg_sleep(0.008)');
        if (next.status !== 200) hit.push(next.text);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, storm));
    if (CANCELS >= 1_000)
      process.stdout.write(
        `Postgres ${server.major}, pooled: ${CANCELS} cancels, ${meant} as meant, ${hit.length} hit the next\n`,
      );
    expect(hit).toEqual([]);
  });
});
