/**
 * Webhooks of the program as a process: each change arrives at least once and in order, though service, server and endpoint are killed
 * at any step; and TLS is verified.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answered, type Endpoint, type Received, startEndpoint } from '../support/endpoint.js';
import {
  endEverything,
  eventually,
  firstToken,
  newFolder,
  preparedDataDir,
  projectPostmaster,
  type RunningService,
  startServe,
} from '../support/program.js';
import { call, type TestResponse } from '../support/service.js';

let dataDir: string;
let folder: string;
let trusted: { key: string; cert: string };
beforeAll(async () => {
  dataDir = await preparedDataDir();
  folder = await newFolder();
  trusted = certificate('trusted');
});
afterAll(endEverything);

/** For 127.0.0.1, signed by itself. */
function certificate(name: string, address = '127.0.0.1'): { key: string; cert: string } {
  const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.pem`)];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const names = ['-subj', `/CN=${address}`, '-addext', `subjectAltName=IP:${address}`];
  execFileSync('openssl', [...made, ...names, '-keyout', key, '-out', cert], { stdio: 'ignore' });
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
}

interface Running {
  service: RunningService;
  ask(method: string, path: string, body?: unknown): Promise<TestResponse>;
}

async function start(): Promise<Running> {
  const service = await startServe(['--data-dir', dataDir, '--webhook-networks', '127.0.0.0/8'], {
    // What the second says must not count.
    env: { NODE_EXTRA_CA_CERTS: join(folder, 'trusted.pem'), NODE_TLS_REJECT_UNAUTHORIZED: '0' },
  });
  const token = await firstToken(dataDir);
  return {
    service,
    ask: async (method, path, body) => {
      const response = await call(service.url, method, path, { token, ...(body === undefined ? {} : { body }) });
      expect(response.text).toMatch(/^\{"success":true/);
      return response;
    },
  };
}

const numberOf = (change: Received['body']['changes'][number]) => (change.record as { n: number }).n;

describe('webhooks', () => {
  let running: Running;
  let written = 0;
  const write = async (count: number) => {
    const sql = `INSERT INTO counted SELECT generate_series(${written + 1}, ${written + count})`;
    await running.ask('POST', '/api/cdp/sql', { sql });
    written += count;
  };

  it('arrive, all of them and in order, whatever is killed and when', async () => {
    running = await start();
    await running.ask('POST', '/api/cdp/sql', { sql: 'CREATE TABLE counted (n int PRIMARY KEY)' });
    await running.ask('PUT', '/api/cdp/feed', {});
    let endpoint: Endpoint = await startEndpoint();
    const port = Number(new URL(endpoint.url).port);
    const past: Received[] = [];
    const received = () => [...past, ...endpoint.received];
    const arrived = (n: number) =>
      eventually(`${n} arrives`, () =>
        Promise.resolve(received().some(({ body }) => body.changes.some((change) => numberOf(change) === n))),
      );
    const { secret, webhook } = (await running.ask('POST', '/api/cdp/webhooks', { url: endpoint.url }))
      .body as unknown as {
      secret: string;
      webhook: { id: string };
    };

    const restart = async () => {
      await running.service.end('SIGKILL');
      running = await start();
    };
    // Nothing has been sent yet; a delivery waits for its answer; an answer is on its way; one has arrived.
    await write(3);
    await restart();
    await arrived(written);
    let hold = (): void => {};
    const held = new Promise<void>((resolve) => (hold = resolve));
    endpoint.answer = () => hold();
    await write(5);
    await held;
    await restart();
    endpoint.answer = answered(204);
    await write(2);
    await arrived(written);
    const { service } = running;
    const killed = new Promise<void>((resolve) => {
      endpoint.answer = (_request, response) => {
        response.writeHead(204).end();
        service.process.kill('SIGKILL');
        resolve();
      };
    });
    await write(4);
    await killed;
    endpoint.answer = answered(204);
    await service.ended;
    running = await start();
    await write(150);
    await arrived(written);
    await restart();

    // The endpoint is away for a while.
    past.push(...endpoint.received);
    await endpoint.close();
    await write(7);
    await eventually('it fails', async () => {
      const { body } = await running.ask('GET', `/api/cdp/webhooks/${webhook.id}`);
      return (body.webhook as { status: string }).status === 'failing';
    });
    await restart();
    endpoint = await startEndpoint(answered(204), { port });
    await write(1);
    await arrived(written);

    // The server of the project is killed, and the service stopped in good order.
    process.kill((await projectPostmaster(dataDir)) ?? 0, 'SIGKILL');
    await eventually('it writes again', async () => {
      const sql = `INSERT INTO counted VALUES (${written + 1})`;
      const token = await firstToken(dataDir);
      const { status } = await call(running.service.url, 'POST', '/api/cdp/sql', { token, body: { sql } });
      return status === 200;
    });
    written++;
    expect((await running.service.end()).code).toBe(0);
    running = await start();
    await arrived(written);

    const all = received();
    const texts = new Map<string, string>();
    let seen = 0;
    for (const { headers, text, body } of all) {
      expect(new Verifier(secret).verify(text, headers)).toEqual(body);
      // The same id has the same changes.
      const id = headers['webhook-id'] ?? '';
      expect(texts.get(id) ?? text).toBe(text);
      texts.set(id, text);
      for (const n of body.changes.map(numberOf)) {
        // Either the next one, or one again.
        expect(n).toBeLessThanOrEqual(seen + 1);
        seen = Math.max(seen, n);
      }
    }
    expect(seen).toBe(written);
    await endpoint.close();
    await running.ask('DELETE', `/api/cdp/webhooks/${webhook.id}`);
  });

  it('verify TLS, whatever the environment says', async () => {
    const outcomeAt = async (tls: { key: string; cert: string }) => {
      const endpoint = await startEndpoint(answered(204), { tls });
      const { webhook } = (await running.ask('POST', '/api/cdp/webhooks', { url: endpoint.url })).body as {
        webhook: { id: string };
      };
      const { test } = (await running.ask('POST', `/api/cdp/webhooks/${webhook.id}/test`)).body as {
        test: { delivered: boolean; error: string | null };
      };
      expect(endpoint.received).toHaveLength(test.delivered ? 1 : 0);
      await endpoint.close();
      return test;
    };
    expect(await outcomeAt(trusted)).toMatchObject({ delivered: true, error: null });
    expect(await outcomeAt(certificate('stranger'))).toMatchObject({
      delivered: false,
      error: 'self-signed certificate',
    });
    const { service } = running;
    expect(service.output()).not.toContain('whsec_');
  });
});
