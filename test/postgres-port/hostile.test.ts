/** What a session with a valid token sends to harm the service: only its own session may end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ReadOnlyFilter } from '../../src/postgres-port/read-only-filter.js';
import { classifyByFirstWord } from '../../src/engine/parser/classify-reader-text.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { bind, errorsIn, execute, FLUSH, message, parse, query, RawClient, TERMINATE } from './connect.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ 'pg-port': '0' });
  project = await service.project();
});

afterAll(() => service?.close());

const open = async (user: string): Promise<RawClient> => {
  const client = await RawClient.open(service.postgresPort ?? 0);
  await client.logIn(user, project.name, project.token);
  return client;
};

const noneOpen = () =>
  vi.waitFor(() => expect(service.engine.sessions?.load.sessions).toEqual({ writer: 0, reader: 0 }), {
    timeout: 20_000,
  });

/** Longer than what is kept of a message. */
const LONG = 200_000;

describe.each(['writer', 'reader'])('%s', (user) => {
  it('can set a parameter that Postgres reports with a length of 140 KB', async () => {
    const client = await open(user);
    client.send(
      query(`SET search_path = ${Array.from({ length: 2_500 }, (_, i) => `"${'x'.repeat(50)}${i}"`).join()}`),
    );
    expect(errorsIn(await client.until('Z'))).toEqual([]);
    client.send(query('SELECT 1'));
    expect(errorsIn(await client.until('Z'))).toEqual([]);
    client.close();
    await noneOpen();
  });

  it('can disconnect after an error of 200 KB, without Sync', async () => {
    const client = await open(user);
    client.send(parse(`SELECT '${'x'.repeat(LONG)}'::int`), FLUSH);
    expect(errorsIn(await client.until('E'))).toEqual(['22P02']);
    const endedBefore = service.engine.sessions?.ended.get('database_unavailable') ?? 0;
    client.send(TERMINATE);
    await client.rest();
    await noneOpen();
    expect(service.engine.sessions?.ended.get('database_unavailable') ?? 0).toBe(endedBefore);
  });

  it('can send 80,000 spaces before the next word', async () => {
    const client = await open(user);
    for (const word of ['begin', 'commit']) {
      client.send(query(`${word}${' '.repeat(80_000)}x`));
      expect(errorsIn(await client.until('Z'))).toEqual(['42601']);
    }
    client.close();
    await noneOpen();
  });
});

describe('the filter of reader sessions', () => {
  it('reads no more from a client than Postgres accepts', async () => {
    const client = await open('reader');
    client.send(parse('SELECT pg_sleep(1000)'), bind(), execute(), FLUSH);
    const before = service.engine.sessions?.load.received ?? 0;
    const large = message('B', Buffer.alloc(3 * 1024 * 1024));
    for (let i = 0; i < 40; i++) client.send(large);
    const received = () => (service.engine.sessions?.load.received ?? 0) - before;
    await vi.waitFor(
      async () => {
        const earlier = received();
        await sleep(500);
        expect([earlier > 0, received()]).toEqual([true, earlier]);
      },
      { timeout: 60_000 },
    );
    expect(received()).toBeLessThan(30 * 1024 * 1024);
    client.close();
  });

  it.each([...ReadOnlyFilter.SERVER_MESSAGES])(
    'handles a message of the type %i that is truncated or empty',
    (type) => {
      const fail = vi.fn();
      const filter = new ReadOnlyFilter(
        new Map([['default_transaction_read_only', 'on']]),
        () => 'reads',
        vi.fn(),
        fail,
        vi.fn(),
      );
      for (const text of [
        '',
        'x',
        'x'.repeat(65_536),
        `search_path\0${'x'.repeat(65_524)}`,
        `SERROR\0M${'x'.repeat(65_528)}`,
      ])
        filter.onServerMessage(type, Buffer.from(text));
      expect(fail).not.toHaveBeenCalled();
    },
  );

  it('leaves long texts to the parser', () => {
    for (const word of ['begin', 'commit']) {
      expect(classifyByFirstWord(`${word} `)).not.toBeNull();
      expect(classifyByFirstWord(word + ' '.repeat(200))).toBeNull();
    }
  });
});
