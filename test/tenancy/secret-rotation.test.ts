/** Replacing the secret that role passwords derive from, while instances with the old and the new one are running. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import pg from 'pg';
import { pino } from 'pino';
import { startService } from '../../src/service.js';
import { Credentials } from '../../src/tenancy/credentials.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { call, startTestService, type TestProject, type TestService } from '../support/service.js';

const NEW = 'another secret for tests, of more than 32 characters';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  // Each request has to log in.
  service = await startTestService({ 'idle-connection-ms': '100' });
  project = await service.project();
  await project.table('t', { n: 'INTEGER' });
});
afterAll(() => service.close());

const start = (settings: object) => startService({ ...service.config, ...settings }, pino({ level: 'silent' }));

it('fails no request, and ends with passwords that do not derive from the old secret', async () => {
  const { secret: old } = service.config;
  const next = await start({ secret: NEW, secretPrevious: old });
  const insertAt = async (url: string) =>
    (await call(url, 'POST', '/api/cdp/data/t', { token: project.token, body: [{ n: 1 }] })).status;
  const { writer, database } = (await service.engine.projects.get(project.name)).placement;
  /** The secret whose password the writer has. */
  const valid = async () => {
    const login = { ...service.server.connection, database, user: writer };
    for (const secret of [old ?? '', NEW]) {
      const client = new pg.Client({ ...login, password: new Credentials(secret).password(writer) });
      const isIn = await client.connect().then(
        () => true,
        () => false,
      );
      await client.end();
      if (isIn) return secret;
    }
    return null;
  };
  try {
    // Both serve at once, whichever password the roles have: that of the old secret, then that of the new one.
    for (const both of [service.url, next.url, next.url, service.url]) expect(await insertAt(both)).toBe(201);
    expect(await valid()).toBe(old);
    const runs = call(next.url, 'POST', '/api/cdp/sql', {
      token: project.token,
      body: { sql: 'SELECT pg_advisory_lock(4711), pg_sleep(3)' },
    });
    const isRunning = async () =>
      (await project.rows('SELECT NOT pg_try_advisory_xact_lock(4711) AS runs'))[0]?.runs === true;
    await expect.poll(isRunning, { timeout: 20_000 }).toBe(true);
    const { repaired } = await next.engine.projects.repair(project.name, BY_ITSELF);
    expect(repaired).toEqual([]);
    expect((await runs).status).toBe(200);
    expect(await valid()).toBe(NEW);
    for (const both of [next.url, service.url, next.url]) expect(await insertAt(both)).toBe(201);
    // The old instance has set its own again. Once none is left, a repair is final.
    expect(await valid()).toBe(old);
    await next.engine.projects.repair(project.name, BY_ITSELF);
    expect(await valid()).toBe(NEW);
  } finally {
    await next.close();
  }
  await expect(start({})).rejects.toThrow('CDP_SECRET is not the secret');
  const after = await start({ secret: NEW });
  expect(await insertAt(after.url)).toBe(201);
  await after.close();
});
