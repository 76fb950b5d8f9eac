/** A cancel request ends no statement that the client sends after it, however late it reaches Postgres. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HeldCancels, startHeldCancels } from '../support/held-cancels.js';
import { testServers } from '../support/postgres.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { cancelRequest, errorsIn, login, message, query, RawClient, run, SYNC, withClient } from './connect.js';

describe.each(testServers())('on Postgres $major', (server) => {
  let cancels: HeldCancels;
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    cancels = await startHeldCancels(server);
    service = await startTestService({ 'pg-port': '0', 'pg-transaction-ms': '1000' }, cancels.server);
    project = await service.project();
    await project.rows('CREATE TABLE numbers (n int)');
  });

  afterAll(async () => {
    await service?.close();
    await cancels?.close();
  });

  const connect = () => RawClient.open(service.postgresPort ?? 0);

  async function open(user = 'writer'): Promise<{ client: RawClient; key: Buffer }> {
    const client = await connect();
    const key = (await client.logIn(user, project.name, project.token)).find(({ type }) => type === 'K')?.body;
    return { client, key: key ?? Buffer.alloc(8) };
  }

  async function requestCancel(key: Buffer): Promise<RawClient> {
    const client = await connect();
    client.send(cancelRequest(key));
    return client;
  }

  /** After these round trips the service has read, and would have passed on, what was sent before. */
  const roundTrips = () =>
    withClient(login(service, project), async (client) => {
      for (let i = 0; i < 5; i++) await client.query('SELECT 1');
    });

  const waits = (name: string) => `SELECT pg_sleep(0.5) AS ${name}`;

  type Kind = [string, string, (name: string) => Buffer];
  const ofReader: Kind[] = server.major < 16 ? [] : [['a query of reader', 'reader', (name) => query(waits(name))]];
  const kinds: Kind[] = [
    ['a simple query', 'writer', (name) => query(waits(name))],
    ['an extended query', 'writer', (name) => Buffer.concat([run(waits(name)), SYNC])],
    ...ofReader,
    [
      'a COPY',
      'writer',
      (name) =>
        Buffer.concat([
          query(`COPY numbers FROM STDIN /* ${name} */`),
          ...Array.from({ length: 20_000 }, () => message('d', '1\n')),
          message('c'),
        ]),
    ],
  ];

  describe('protects', () => {
    it.each(kinds)('%s after a cancel request that is still on its way', async (kind, user, statement) => {
      const name = `next_${kind.replaceAll(' ', '_')}`;
      const { client, key } = await open(user);
      cancels.hold();
      const canceling = await requestCancel(key);
      await expect.poll(() => cancels.held).toBe(1);
      client.send(statement(name));
      await roundTrips();
      expect([canceling.isClosed, cancels.hasPassed(name)]).toEqual([false, false]);
      cancels.release();
      expect(await canceling.rest()).toEqual(Buffer.alloc(0));
      expect(errorsIn(await client.until('Z'))).toEqual([]);
      expect(cancels.hasPassed(name)).toBe(true);
      client.close();
    });

    it("the statement after one whose time was up, from the service's own cancel request", async () => {
      const { client } = await open();
      cancels.hold();
      client.send(query('SELECT pg_sleep(3)'));
      await expect.poll(() => cancels.held, { timeout: 20_000 }).toBe(1);
      expect(errorsIn(await client.until('Z'))).toEqual([]);
      client.send(query(waits('after_its_time')));
      await roundTrips();
      expect(cancels.hasPassed('after_its_time')).toBe(false);
      cancels.release();
      expect(errorsIn(await client.until('Z'))).toEqual([]);
      client.close();
    });

    it('a client whose cancel request is not answered: its session ends, and its statement does not run', async () => {
      const { client, key } = await open();
      cancels.hold();
      await requestCancel(key);
      await expect.poll(() => cancels.held).toBe(1);
      client.send(query('INSERT INTO numbers VALUES (-1) /* never_runs */'));
      expect(errorsIn(await client.until('none'))).toEqual(['57P01']);
      cancels.release();
      expect(cancels.hasPassed('never_runs')).toBe(false);
    });
  });
});
