/**
 * How soon a session ends after its token or project does: within a second, on every instance, even while the control
 * database is away.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Service, startService } from '../../src/service.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { onServer, startTestService, type TestProject, type TestService } from '../support/service.js';
import { errorsIn, RawClient } from './connect.js';

const ISSUER = 'https://identity.example/';

let provider: Server;
let service: TestService;
let second: Service;
let sign: (project: string) => Promise<string>;

beforeAll(async () => {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }];
  provider = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys }));
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  sign = (project) =>
    new SignJWT({ project, scope: 'sql:write' })
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuer(ISSUER)
      .setAudience('cdp')
      .setSubject('somebody')
      .setExpirationTime('5m')
      .sign(privateKey);
  service = await startTestService({
    'pg-port': '0',
    'jwt-issuer': ISSUER,
    'jwt-audience': 'cdp',
    'jwt-jwks-url': `http://127.0.0.1:${(provider.address() as AddressInfo).port}/`,
  });
  second = await startService(service.config, pino({ level: 'silent' }));
});

afterAll(async () => {
  await second?.close();
  await service?.close();
  provider?.close();
});

async function open({ name }: TestProject, token: string, port = service.postgresPort): Promise<RawClient> {
  const client = await RawClient.open(port ?? 0);
  expect((await client.logIn('writer', name, token)).at(-1)?.type).toBe('Z');
  return client;
}

interface Attempt {
  client: RawClient;
  /** Ends the token or the project. */
  end: () => Promise<unknown>;
}

const newToken = (project: TestProject) => service.engine.tokens.create(project.id);

const revoked = async (port?: number | null): Promise<Attempt> => {
  const project = await service.project();
  const { token, details } = await newToken(project);
  return {
    client: await open(project, token, port),
    end: () => service.engine.tokens.revoke(details.id, {}, BY_ITSELF),
  };
};

const deactivated = async (token?: (project: string) => Promise<string>): Promise<Attempt> => {
  const project = await service.project();
  const client = await open(project, token === undefined ? project.token : await token(project.name));
  return { client, end: () => service.engine.projects.setActive(project.name, false, BY_ITSELF) };
};

const ATTEMPTS: Record<string, () => Promise<Attempt>> = {
  'a revocation': () => revoked(),
  'a revocation by another instance': () => revoked(second.postgresPort),
  'a deactivation': () => deactivated(),
  'a deactivation, with a JWT as the password': () => deactivated(sign),
  'a deletion': async () => {
    const project = await service.project();
    return {
      client: await open(project, project.token),
      end: () => service.engine.projects.delete(project.name, BY_ITSELF),
    };
  },
};

it.each(Object.keys(ATTEMPTS))('%s ends a session within a second', async (name) => {
  const times: number[] = [];
  for (let i = 0; i < 5; i++) {
    const { client, end } = (await ATTEMPTS[name]?.()) as Attempt;
    const started = performance.now();
    const ended = end();
    expect(errorsIn(await client.until('none')).at(-1)).toBe('57P01');
    times.push(performance.now() - started);
    await ended;
  }
  times.sort((a, b) => a - b);
  expect(times[2]).toBeLessThan(1_000);
  expect(times[4]).toBeLessThan(10_000);
});

it('expiry ends a session while the control database is away', async () => {
  const project = await service.project();
  const expiresAt = new Date(Date.now() + 4_000);
  const { token } = await service.engine.tokens.create(project.id, { expiresAt });
  const client = await open(project, token);
  const allow = (allowed: boolean) =>
    onServer(service.server, async (superuser) => {
      await superuser.query(`ALTER DATABASE ${service.database} ALLOW_CONNECTIONS ${allowed}`);
      await superuser.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
        service.database,
      ]);
    });
  await allow(false);
  try {
    const errors = errorsIn(await client.until('none'));
    expect(errors).toEqual(['57P01']);
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAt.getTime());
  } finally {
    await allow(true);
  }
});
