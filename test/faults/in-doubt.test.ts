/**
 * The connection breaks during the commit of a change. Each response says only what is known, and a batch can be repeated
 * under its key.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { endEverything, type RunningService } from '../support/program.js';
import { send } from './support/clients.js';
import { createLedger, databaseOf, onDatabase, type ServerStage, serverStage } from './support/stage.js';

/** What becomes of the messages with the key, one after the other; the last holds for all that follow. */
type Fate = 'pass' | 'response is lost' | 'all is cut';

let fates: Fate[] = [];
let key = 'none yet';
let isCut = false;
const sockets = new Set<Socket>();

let stage: ServerStage;
let service: RunningService;
let adminToken: string;
const server = createServer((near) => {
  near.on('error', () => {});
  if (isCut) return void near.destroy();
  const { host, port } = stage.server().connection;
  const far = connect(join(host, `.s.PGSQL.${port}`));
  far.on('error', () => {});
  sockets.add(near);
  let isLost = false;
  near.on('data', (bytes) => {
    const fate = bytes.includes(key) ? (fates.shift() ?? 'pass') : 'pass';
    if (fate === 'all is cut') {
      isCut = true;
      for (const socket of sockets) socket.destroy();
      return;
    }
    isLost ||= fate === 'response is lost';
    far.write(bytes);
  });
  far.on('data', (bytes) => void (isLost ? near.destroy() : near.write(bytes)));
  near.on('close', () => {
    sockets.delete(near);
    far.end();
  });
  far.on('close', () => near.end());
});
beforeAll(async () => {
  stage = await serverStage();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  service = await stage.start(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  await createLedger(service.url, stage.token);
  await stage.cdp('token', 'create', '--project', 'shop', '--name', 'spare');
  adminToken = (JSON.parse(await stage.cdp('token', 'create', '--admin', '--json')) as { token: string }).token;
});
afterAll(async () => {
  await service.end();
  await endEverything();
  server.close();
  await stage.close();
});

const insert = (ofKey: string) =>
  send(`${service.url}/api/cdp/data/ledger`, stage.token, JSON.stringify([{ batch: ofKey }]), ofKey);
const stored = async (ofKey: string): Promise<number> => {
  const at = (database: string) => ({ ...stage.server().connection, database });
  const database = await onDatabase(at('cdp'), databaseOf('shop'));
  const rows = await stage.query('SELECT FROM data.ledger WHERE batch = $1', [ofKey], database);
  return rows.length;
};

it.each([
  ['201 if only the claim of the key was lost', ['response is lost', 'pass', 'pass'], 201, '201', 1],
  ['outcome_unknown if the response to the commit is lost', ['pass', 'response is lost'], 503, 'outcome_unknown', 1],
  ['outcome_unknown if the commit itself is lost', ['pass', 'all is cut'], 503, 'outcome_unknown', 0],
] as const)('%s', async (what, fated, status, code, isStored) => {
  // The connection has to have served before.
  for (const name of ['a', 'b']) expect(await insert(`${what}-${name}`)).toMatchObject({ status: 201 });
  key = `key of ${what}`;
  fates = [...fated];
  const reply = await insert(key);
  expect(reply).toMatchObject({ status, code });
  expect(fates).toEqual([]);
  isCut = false;
  expect(await stored(key)).toBe(isStored);
  // Under its key it is settled.
  if (status !== 201) {
    expect(Number(reply.retryAfter)).toBeGreaterThan(0);
    await expect.poll(async () => (await insert(key)).status).toBe(201);
    expect(await stored(key)).toBe(1);
  }
});

const admin = async (method: string, path: string, body?: object) => {
  const response = await fetch(`${service.url}/api/cdp/admin/projects${path}`, {
    method,
    headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    body: (await response.json()) as { error?: string; projects?: { name: string }[]; tokens?: Token[] },
  };
};

interface Token {
  id: string;
  name: string;
  revoked_at: string | null;
}

it.each([
  ['of which the response is lost', 'response is lost', true],
  ['which is lost', 'all is cut', false],
] as const)('creating and revoking a token answers outcome_unknown for a commit %s', async (_what, fate, isDone) => {
  const name = `token-${Date.now()}`;
  const lost = async (ofKey: string, method: string, path: string, body?: object) => {
    key = ofKey;
    fates = [fate];
    expect(await admin(method, path, body)).toMatchObject({ status: 503, body: { error: 'outcome_unknown' } });
    expect(fates).toEqual([]);
    isCut = false;
    // Postgres is known to be away for a moment.
    await expect.poll(async () => (await admin('GET', '/shop/tokens')).status, { timeout: 20_000 }).toBe(200);
    const { tokens = [] } = (await admin('GET', '/shop/tokens')).body;
    return tokens;
  };
  const made = await lost('INSERT INTO cdp.tokens', 'POST', '/shop/tokens', { name });
  expect(made.some((token) => token.name === name)).toBe(isDone);
  const { id } = made.find((token) => token.revoked_at === null && token.name === (isDone ? name : 'spare')) as Token;
  const revoked = await lost('UPDATE cdp.tokens SET revoked_at', 'DELETE', `/shop/tokens/${id}`);
  expect(revoked.find((token) => token.id === id)?.revoked_at !== null).toBe(isDone);
});

it.each([
  ['database_unavailable and taken back where it can be', ['response is lost', 'pass'], 'database_unavailable'],
  ['outcome_unknown where Postgres is gone by then', ['response is lost', 'all is cut'], 'outcome_unknown'],
] as const)('a project whose last step got no reply: %s', async (_what, fated, code) => {
  // Another each time that it is tried.
  const name = `${code.replaceAll('_', '-')}-${Date.now()}`;
  key = 'UPDATE cdp.projects SET status';
  fates = [...fated];
  expect(await admin('POST', '', { name })).toMatchObject({ status: 503, body: { error: code } });
  expect(fates).toEqual([]);
  isCut = false;
  const names = async () => (await admin('GET', '')).body.projects?.map((project) => project.name) ?? [];
  await expect.poll(names).toContain('shop');
  expect((await names()).includes(name)).toBe(code === 'outcome_unknown');
});
