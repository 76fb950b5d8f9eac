/**
 * Sixty projects on servers of their own and on three Postgres clusters, which are reached by a Unix socket, by TCP
 * with a standby, and by TCP with TLS. Labels, weights and limits decide where projects go; then one cluster hangs
 * while the primary of another dies.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { PASSWORD } from '../support/throwaway-postgres.js';
import {
  expectFailure,
  startOwnService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { type Cluster, startCluster } from './support/cluster.js';

let service: TestService;
let admin: string;
let bySocket: AddedServer;
let byTls: AddedServer;
let cluster: Cluster;

const SMALL = ['shared_buffers=16MB'];

beforeAll(async () => {
  [service, bySocket, byTls, cluster] = await Promise.all([
    startOwnService(),
    startAddedServer(undefined, SMALL),
    startAddedServer(undefined, SMALL, true),
    startCluster(),
  ]);
  admin = (await service.engine.tokens.create(null)).token;
  await connected(cluster.primary().connection, async (client) => {
    await client.query(`CREATE ROLE cdp LOGIN CREATEDB CREATEROLE PASSWORD '${PASSWORD}'`);
    await client.query('CREATE DATABASE cdp OWNER cdp');
  });
  const byTcp = `postgres://cdp:${PASSWORD}@${cluster.hosts}/cdp?connect_timeout=2`;
  await add('socket', bySocket.url, { labels: { region: 'eu' }, weight: 2 });
  await add('tcp', byTcp, { labels: { region: 'eu' } });
  // Its certificate is that of the address, and of no other name.
  const elsewhere = `env:${variableWith(byTls.url.replace('127.0.0.1', 'localhost'))}`;
  const refused = await send('POST', 'servers', { name: 'tls', url_reference: elsewhere });
  expect(expectFailure(refused, 400, 'invalid_request').message).toContain('does not match certificate');
  await add('tls', byTls.url, { labels: { region: 'us' }, max_projects: 15 });
});
afterAll(async () => {
  await service.close();
  await Promise.all([bySocket, byTls, cluster].map((server) => server.close()));
});

const send = (method: string, path: string, body?: object): Promise<TestResponse> =>
  service.call(method, `/api/cdp/admin/${path}`, { token: admin, body });

async function add(name: string, url: string, more: object): Promise<void> {
  const response = await send('POST', 'servers', { name, url_reference: `env:${variableWith(url)}`, ...more });
  expect(response.status, response.text).toBe(201);
}

interface Placed extends Pick<TestProject, 'name' | 'call'> {
  readonly server: string;
  /** Records that were acknowledged, and those of which nobody knows. */
  stored: number;
  open: number;
}

const projects: Placed[] = [];

async function create(wish: object): Promise<TestResponse> {
  const name = `p-${projects.length}-${Object.values(wish).join('').length}`;
  const response = await send('POST', 'projects', { name, ...wish });
  if (response.status !== 201) return response;
  const { id, server } = response.body.project as { id: string; server: string };
  const { token } = await service.engine.tokens.create(id);
  const callIt: TestProject['call'] = (method, path, given = {}) => service.call(method, path, { token, ...given });
  projects.push({ name, call: callIt, server, stored: 0, open: 0 });
  return response;
}

/**
 * One record for each project in turn: if each waited for its server, they would take minutes. @returns statuses by
 * server
 */
async function write(): Promise<Record<string, string[]>> {
  const seen: Record<string, Set<string>> = {};
  for (const project of projects) {
    const response = await project.call('POST', '/api/cdp/data/visits', { body: [{ page: 'a' }] });
    const { error = String(response.status) } = response.body as { error?: string };
    if (response.status === 201) project.stored++;
    if (error === 'outcome_unknown') project.open++;
    if (error === 'database_unavailable') expect(response.headers.get('retry-after')).toBe('1');
    (seen[project.server] ??= new Set()).add(error);
  }
  return Object.fromEntries(Object.entries(seen).map(([server, responses]) => [server, [...responses]]));
}

const FINE = { default: ['201'], socket: ['201'], tcp: ['201'], tls: ['201'] };
const ready = async (): Promise<unknown> => (await service.call('GET', '/readyz')).body;

it('sixty projects go where labels, weights and limits say, and to no server that is draining or closed', async () => {
  const many = async (count: number, wish: object) => {
    for (let i = 0; i < count; i++) expect((await create(wish)).status).toBe(201);
  };
  await many(30, { labels: { region: 'eu' } });
  await many(15, { labels: { region: 'us' } });
  const full = await create({ labels: { region: 'us' } });
  expect(expectFailure(full, 400, 'invalid_request').message).toContain('region=us');
  await many(5, { server: 'default' });
  await send('PUT', 'servers/socket', { status: 'draining' });
  expectFailure(await create({ server: 'socket' }), 400, 'invalid_request');
  await many(3, { labels: { region: 'eu' } });
  await send('PUT', 'servers/tcp', { status: 'closed' });
  expectFailure(await create({ labels: { region: 'eu' } }), 400, 'invalid_request');
  await send('PUT', 'servers/socket', { status: 'active' });
  await many(7, { labels: { region: 'eu' } });
  await send('PUT', 'servers/tcp', { status: 'active' });
  const counts: Record<string, number> = {};
  for (const { server } of projects) counts[server] = (counts[server] ?? 0) + 1;
  expect(counts).toEqual({ socket: 27, tcp: 13, tls: 15, default: 5 });
  for (const project of projects) {
    const body = { table_name: 'visits', columns: [{ name: 'page', type: 'TEXT' }] };
    const response = await project.call('POST', '/api/cdp/schema/table', { body });
    expect(response.status, response.text).toBe(201);
  }
  expect(await write()).toEqual(FINE);
});

it('one cluster hangs while the primary of another dies: only their projects are refused, until the clusters are back', async () => {
  await byTls.signal('SIGSTOP', 'everybody');
  try {
    await expect.poll(ready).toEqual({ success: true, message: 'degraded', servers: ['tls'] });
    expect(await write()).toEqual({ ...FINE, tls: ['database_unavailable'] });
    await cluster.signal('SIGKILL');
    await expect.poll(ready).toMatchObject({ message: 'degraded', servers: ['tcp', 'tls'] });
    const away = ['database_unavailable'];
    expect(await write()).toEqual({ ...FINE, tcp: away, tls: away });
    // The URL of its server names both hosts.
    await cluster.promote();
    await expect.poll(write).toEqual({ ...FINE, tls: away });
  } finally {
    await byTls.signal('SIGCONT', 'everybody');
  }
  await expect.poll(write).toEqual(FINE);
  expect(await ready()).toEqual({ success: true, message: 'ready' });
  for (const project of projects) {
    const { name, stored, open } = project;
    const body = { sql: 'SELECT count(*)::int AS n FROM visits' };
    const response = await project.call('POST', '/api/cdp/sql', { body });
    const [{ n } = { n: -1 }] = response.body.rows as { n: number }[];
    expect(n - stored, name).toBeGreaterThanOrEqual(0);
    expect(n - stored - open, name).toBeLessThanOrEqual(0);
  }
});
