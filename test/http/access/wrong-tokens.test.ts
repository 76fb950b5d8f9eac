/**
 * Wrong tokens are limited by the address that they come from, and other clients at that address are not locked out
 * (contract C15.6).
 */
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { callFrom } from '../../support/address.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const LIMIT = 5;

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** A token in the right form, with its checksum, that nobody has. */
function stranger(): string {
  const body = Array.from(randomBytes(43), (byte) => DIGITS[byte % 62]).join('');
  let sum = '';
  for (let rest = crc32(body); sum.length < 6; rest = Math.floor(rest / 62)) sum = (DIGITS[rest % 62] ?? '') + sum;
  return `cdp_${body}${sum}`;
}

let service: TestService;
let project: TestProject;
/** Questions to the control database; each is asked for real. */
let questions: MockInstance;
/** A new address for each test, which no other has used. */
let address: string;
let addresses = 1;

beforeAll(async () => {
  service = await startTestService({ 'wrong-tokens': String(LIMIT) });
  project = await service.project();
  questions = vi.spyOn(service.engine.control.tokens, 'byHash');
});
afterAll(() => service.close());
beforeEach(() => {
  address = `127.0.1.${++addresses}`;
  questions.mockClear();
});

const send = (token: string, from = address): Promise<TestResponse> =>
  callFrom(from, service.url, { authorization: `Bearer ${token}` });

/** Puts the address over its limit. */
async function exhaust(from = address): Promise<void> {
  for (let i = 0; i < LIMIT; i++) expectFailure(await send(stranger(), from), 401, 'unauthorized');
  await send(stranger(), from);
  questions.mockClear();
}

describe('works', () => {
  it('answers 401 up to the limit and 429 beyond it, with the time to wait', async () => {
    for (let i = 0; i < LIMIT; i++) expectFailure(await send(stranger()), 401, 'unauthorized');
    const response = await send(stranger());
    expectFailure(response, 429, 'rate_limited');
    const wait = Number(response.headers.get('retry-after'));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(60);
  });

  it('still serves known tokens, also if what is known of them is stale', async () => {
    expect((await send(project.token, '127.0.0.1')).status).toBe(200);
    await exhaust();
    for (let i = 0; i < 4; i++) {
      expect((await send(project.token)).status).toBe(200);
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
  });

  it('accepts a valid token that is new here, though not at once', async () => {
    await exhaust();
    const fresh = await project.tokenWith('schema:read');
    const end = Date.now() + 5_000;
    let response = await send(fresh);
    while (response.status === 429 && Date.now() < end) response = await send(fresh);
    expect(response.status).toBe(200);
    expect((await send(fresh)).status).toBe(200);
  });

  it('does not count requests without a token, with an expired one, or with too few scopes', async () => {
    const expired = await service.engine.tokens.create(project.id, { expiresAt: new Date(Date.now() - 1) });
    const other = await project.tokenWith('data:write');
    for (let i = 0; i < LIMIT + 2; i++) {
      expectFailure(await callFrom(address, service.url, {}), 401, 'unauthorized');
      expectFailure(await send(expired.token), 401, 'token_expired');
      expectFailure(await send(other), 403, 'insufficient_scope');
    }
    expectFailure(await send(stranger()), 401, 'unauthorized');
  });
});

describe('protects', () => {
  it('the database: beyond the limit it is queried at most once a second', async () => {
    await exhaust();
    const started = performance.now();
    const responses = await Promise.all(Array.from({ length: 200 }, () => send(stranger())));
    for (const response of responses) expectFailure(response, 429, 'rate_limited');
    expect(questions.mock.calls.length).toBeLessThanOrEqual(2 + (performance.now() - started) / 1_000);
  });

  it('the database from many requests at once before any is counted', async () => {
    await Promise.all(Array.from({ length: 1_000 }, () => send(stranger())));
    expect(questions.mock.calls.length).toBeLessThanOrEqual(150);
  });

  it('other addresses: each has its own count', async () => {
    await exhaust();
    expectFailure(await send(stranger(), `127.0.2.${addresses}`), 401, 'unauthorized');
    const own = await project.tokenWith('schema:read');
    expect((await send(own, `127.0.3.${addresses}`)).status).toBe(200);
  });

  it('against mistyped tokens and revoked ones too, and forgets that a revoked one was known', async () => {
    const revoked = await service.engine.tokens.create(project.id);
    expect((await send(revoked.token)).status).toBe(200);
    await service.engine.tokens.revoke(revoked.details.id, {}, BY_ITSELF);
    await new Promise((resolve) => setTimeout(resolve, 800));
    expectFailure(await send(revoked.token), 401, 'unauthorized');
    for (let i = 1; i < LIMIT; i++) expectFailure(await send('mistyped'), 401, 'unauthorized');
    expectFailure(await send('mistyped'), 429, 'rate_limited');
    expectFailure(await send(revoked.token), 429, 'rate_limited');
  });

  it('against headers that claim another address', async () => {
    await exhaust();
    for (const claimed of ['203.0.113.1', '127.0.0.1', '127.0.0.1, 203.0.113.2', 'unknown']) {
      const headers = { 'x-forwarded-for': claimed, forwarded: `for=${claimed}`, 'x-real-ip': claimed };
      const authorization = `Bearer ${stranger()}`;
      expectFailure(await callFrom(address, service.url, { ...headers, authorization }), 429, 'rate_limited');
    }
  });
});

describe('behind a trusted proxy', () => {
  let proxied: TestService;
  beforeAll(async () => {
    proxied = await startTestService({ 'wrong-tokens': String(LIMIT), 'trust-proxy': '127.0.9.1, 127.0.9.2' });
  });
  afterAll(() => proxied.close());

  const via = (forwarded: string, from = '127.0.9.1') =>
    callFrom(from, proxied.url, { 'x-forwarded-for': forwarded, authorization: `Bearer ${stranger()}` });

  it('counts by the address that the proxy names, from the right', async () => {
    for (let i = 0; i < LIMIT; i++) expectFailure(await via(`203.0.113.${i}, 198.51.100.7`), 401, 'unauthorized');
    expectFailure(await via('198.51.100.7'), 429, 'rate_limited');
    expectFailure(await via('198.51.100.7, 127.0.9.2'), 429, 'rate_limited');
    expectFailure(await via('198.51.100.8'), 401, 'unauthorized');
  });

  it('counts IPv6 by its first 64 bits', async () => {
    for (let i = 0; i < LIMIT; i++) expectFailure(await via(`2001:db8:0:1::${i}`), 401, 'unauthorized');
    expectFailure(await via('2001:db8:0:1:ffff::1'), 429, 'rate_limited');
    expectFailure(await via('2001:db8:0:2::1'), 401, 'unauthorized');
  });

  it("counts by the proxy's address if the header contains no address", async () => {
    for (let i = 0; i < LIMIT; i++) expectFailure(await via(`nonsense-${i}`, '127.0.9.2'), 401, 'unauthorized');
    expectFailure(await via('other nonsense', '127.0.9.2'), 429, 'rate_limited');
  });

  it('does not trust the header of any other client', async () => {
    for (let i = 0; i < LIMIT; i++) expectFailure(await via(`192.0.2.${i}`, '127.0.9.3'), 401, 'unauthorized');
    expectFailure(await via('192.0.2.99', '127.0.9.3'), 429, 'rate_limited');
  });
});
