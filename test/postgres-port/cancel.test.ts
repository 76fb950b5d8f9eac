/** Cancel requests: which statement they end, and what a flood of them costs. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { cancelRequest, errorsIn, query, RawClient } from './connect.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ 'pg-port': '0' });
  project = await service.project();
});

afterAll(() => service?.close());

async function open({ name, token }: TestProject): Promise<{ client: RawClient; key: Buffer }> {
  const client = await RawClient.open(service.postgresPort ?? 0);
  const key = (await client.logIn('writer', name, token)).find(({ type }) => type === 'K')?.body;
  return { client, key: key ?? Buffer.alloc(8) };
}

/** Nothing is answered, whether there is such a session or not. */
async function cancel(key: Buffer): Promise<void> {
  const client = await RawClient.open(service.postgresPort ?? 0);
  client.send(cancelRequest(key));
  expect(await client.rest()).toEqual(Buffer.alloc(0));
}

it('a cancel key ends nothing after its session, and nothing in another session', async () => {
  const [{ client, key }, other] = await Promise.all([open(project), open(await service.project())]);
  const sleeping = await open(project);
  sleeping.client.send(query('SELECT pg_sleep(2)'));
  const [processId, secret] = [key.subarray(0, 4), key.subarray(4)];
  for (const { key: another } of [other, sleeping]) {
    await cancel(Buffer.concat([processId, another.subarray(4)]));
    await cancel(Buffer.concat([another.subarray(0, 4), secret]));
  }
  await cancel(key);
  client.close();
  await vi.waitFor(() => expect(service.engine.sessions?.load.sessions.writer).toBe(2), { timeout: 20_000 });
  await cancel(key);
  await cancel(other.key);
  expect(errorsIn(await sleeping.client.until('Z'))).toEqual([]);
  sleeping.client.close();
  other.client.close();
});

it('300 requests at once end the statement, and use few connections to Postgres at a time', async () => {
  const { client, key } = await open(project);
  client.send(query('SELECT pg_sleep(60)'));
  let [open1, most] = [0, 0];
  // Postgres is behind a Unix socket, clients of the port are not.
  const count = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    socket.once('connect', () => {
      if (socket.remoteAddress !== undefined) return;
      most = Math.max(most, ++open1);
      socket.once('close', () => open1--);
    });
  };
  subscribe('net.client.socket', count);
  try {
    await Promise.all(Array.from({ length: 300 }, () => cancel(key)));
    expect(errorsIn(await client.until('Z'))).toEqual(['57014']);
  } finally {
    unsubscribe('net.client.socket', count);
  }
  expect(most).toBeLessThan(10);
  client.send(query('SELECT 1'));
  await client.until('Z');
  client.close();
});
