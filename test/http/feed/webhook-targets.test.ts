/** Where webhooks send to: an address is checked when it is connected to, whatever DNS said before. */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Dns, startDns } from '../../support/dns.js';
import { type Endpoint, startEndpoint } from '../../support/endpoint.js';
import { startOwnService, type TestProject, type TestService } from '../../support/service.js';

let dns: Dns;
beforeAll(async () => {
  dns = await startDns();
});
afterAll(() => dns.close());

async function open(settings: Record<string, string>): Promise<{ service: TestService; project: TestProject }> {
  const service = await startOwnService(settings);
  const project = await service.project();
  await project.table('customers', { email: 'TEXT' });
  await project.call('PUT', '/api/cdp/feed', { body: {} });
  return { service, project: await project.seenAnew() };
}

interface Outcome {
  delivered: boolean;
  status: number | null;
  error: string | null;
}

async function outcomeAt(project: TestProject, url: string): Promise<Outcome> {
  const created = await project.call('POST', '/api/cdp/webhooks', { body: { url } });
  expect(created.text).toMatch(/^\{"success":true/);
  const { id } = created.body.webhook as { id: string };
  const tested = await project.call('POST', `/api/cdp/webhooks/${id}/test`);
  await project.call('DELETE', `/api/cdp/webhooks/${id}`);
  return tested.body.test as Outcome;
}

describe('with public addresses only', () => {
  let service: TestService;
  let project: TestProject;
  let server: Server;
  let port: number;
  let connections = 0;
  beforeAll(async () => {
    ({ service, project } = await open({}));
    server = createServer((socket) => {
      connections++;
      socket.destroy();
    }).listen(0, '::');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  });
  afterAll(async () => {
    server.close();
    await service.close();
  });

  it.each([
    ['loopback', ['127.0.0.1']],
    ['other-loopback', ['127.8.9.10']],
    ['zero', ['0.0.0.0']],
    ['private', ['10.1.2.3', '172.16.0.1', '192.168.0.1']],
    ['shared', ['100.64.0.1']],
    ['metadata', ['169.254.169.254']],
    ['azure', ['168.63.129.16']],
    ['multicast', ['224.0.0.1']],
    ['six', ['0:0:0:0:0:0:0:1']],
    ['mapped', ['0:0:0:0:0:ffff:7f00:1']],
    ['compatible', ['0:0:0:0:0:0:7f00:1']],
    ['nat64', ['64:ff9b:0:0:0:0:7f00:1']],
    ['local', ['fd00:ec2:0:0:0:0:0:254']],
    ['link', ['fe80:0:0:0:0:0:0:1']],
  ])('refuse a name with the addresses of %s', async (name, addresses) => {
    dns.names.set(`${name}.example`, addresses);
    const outcome = await outcomeAt(project, `https://${name}.example:${port}/`);
    expect(outcome).toMatchObject({ delivered: false, status: null });
    expect(outcome.error).toContain('has no public address that the operator allows');
    expect(connections).toBe(0);
  });

  it('refuse localhost, without asking DNS', async () => {
    dns.names.set('localhost', ['203.0.113.1']);
    const outcome = await outcomeAt(project, `https://localhost:${port}/`);
    expect(outcome.error).toContain('has no public address');
    expect(connections).toBe(0);
  });

  it('tell of names that do not exist, and wait at most 10 s for an answer of DNS', async () => {
    expect((await outcomeAt(project, 'https://nowhere.example/')).error).toContain('ENOTFOUND');
    dns.names.set('silent.example', null);
    const startedAt = performance.now();
    const others: Promise<Outcome>[] = Array.from({ length: 5 }, () => outcomeAt(project, 'https://silent.example/'));
    dns.names.set('loopback.example', ['127.0.0.1']);
    // Names that hang hold up no other one, and no thread.
    expect((await outcomeAt(project, 'https://loopback.example/')).error).toContain('no public address');
    expect(performance.now() - startedAt).toBeLessThan(9_000);
    for (const other of others) expect((await other).error).toMatch(/ETIMEOUT|no answer within 10 s/);
  });
});

describe('with a network that the operator allows', () => {
  let service: TestService;
  let project: TestProject;
  let endpoint: Endpoint;
  beforeAll(async () => {
    ({ service, project } = await open({ 'webhook-networks': '127.0.0.1, 10.0.0.0/8' }));
    endpoint = await startEndpoint();
  });
  afterAll(async () => {
    await endpoint.close();
    await service.close();
  });

  it('send there, without TLS, too, and nowhere else', async () => {
    const at = (host: string) => endpoint.url.replace('127.0.0.1', host);
    expect(await outcomeAt(project, endpoint.url)).toMatchObject({ delivered: true });
    expect(await outcomeAt(project, at('localhost'))).toMatchObject({ delivered: true });
    dns.names.set('mixed.example', ['169.254.169.254', '127.0.0.1']);
    expect(await outcomeAt(project, at('mixed.example'))).toMatchObject({ delivered: true });
    dns.names.set('elsewhere.example', ['127.0.0.2']);
    const elsewhere = await outcomeAt(project, at('elsewhere.example'));
    expect(elsewhere.error).toContain('has no address that the operator allows');
    // A public address needs TLS.
    dns.names.set('public.example', ['93.184.216.34']);
    expect((await outcomeAt(project, at('public.example'))).error).toContain('for http');
  });

  it('look at the address of every connection: a name that turns elsewhere gets nothing more', async () => {
    const port = Number(new URL(endpoint.url).port);
    dns.names.set('rebinding.example', ['127.0.0.1']);
    const body = { url: `http://rebinding.example:${port}/`, tables: ['customers'] };
    const created = await project.call('POST', '/api/cdp/webhooks', { body });
    const { id } = created.body.webhook as { id: string };
    const shown = async () => (await project.call('GET', `/api/cdp/webhooks/${id}`)).body.webhook as { error: string };
    const before = endpoint.changes().length;
    await project.rows("INSERT INTO customers (email) VALUES ('a')");
    await vi.waitFor(() => expect(endpoint.changes()).toHaveLength(before + 1), { timeout: 30_000 });
    dns.names.set('rebinding.example', ['127.0.0.3']);
    await project.rows("INSERT INTO customers (email) VALUES ('b')");
    await vi.waitFor(async () => expect((await shown()).error).toContain('no address that the operator allows'), {
      timeout: 30_000,
    });
    expect(endpoint.changes()).toHaveLength(before + 1);
  });
});
