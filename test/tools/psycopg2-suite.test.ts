/**
 * psycopg2's own tests, unchanged, at the Postgres port and at a plain Postgres: what differs is listed here with its
 * reason. `scripts/debian-sources.mjs` fetches them; if they are missing, this test says so.
 */
import { spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeFolder } from '../support/folder.js';
import { freePort } from '../support/program.js';
import { startOwnService, type TestService } from '../support/service.js';
import { PASSWORD, startThrowaway, type ThrowawayServer } from '../support/throwaway-postgres.js';

const suite = fileURLToPath(new URL('clients/node_modules/psycopg2-suite/', import.meta.url));
const isThere = existsSync(join(suite, 'tests'));
if (!isThere) console.warn("NOT TESTED: psycopg2's own tests, since Debian's source package has no version 2.9.10");

const DIFFERENT = {
  // It expects a type of its own in the schema `public`, and finds it in `data`.
  'test_cast_composite (tests.test_types_extras.AdaptTypeTestCase.test_cast_composite)': 'FAIL',
};

/** Each test with its outcome: `ok`, `FAIL`, `ERROR`, `skipped` or `expected failure`. */
async function outcomes(login: Record<string, string>): Promise<Map<string, string>> {
  const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1', ...login };
  const child = spawn('/usr/bin/python3', ['-m', 'tests.__init__', '--verbose'], { cwd: suite, env });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  await new Promise((resolve) => child.on('close', resolve));
  const found = Array.from(
    output.matchAll(/^(test\w+ \([\w.]+\))[^]*?\.\.\. (?:[^]*?)(ok|FAIL|ERROR|skipped|expected failure)\b.*$/gm),
    ([, name = '', outcome = '']) => [name, outcome] as const,
  );
  expect(/^Ran (\d+) tests/m.exec(output)?.[1], output.slice(-2_000)).toBe(String(found.length));
  return new Map(found);
}

describe.runIf(isThere)("psycopg2's own tests", () => {
  let service: TestService;
  let plain: ThrowawayServer;
  const folder = makeFolder('cdp-plain-');
  beforeAll(async () => {
    service = await startOwnService({ 'pg-port': '0' });
    plain = await startThrowaway(folder, { port: await freePort() });
  });
  afterAll(async () => {
    await service?.close();
    await plain?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('give the same results at the port as at a plain Postgres, except for those listed', async () => {
    const { name, token } = await service.project();
    const { port, user, database } = plain.connection;
    const at = (host: { port: number; user: string; password: string; database: string }) =>
      outcomes({
        PSYCOPG2_TESTDB: host.database,
        PSYCOPG2_TESTDB_HOST: '127.0.0.1',
        PSYCOPG2_TESTDB_PORT: String(host.port),
        PSYCOPG2_TESTDB_USER: host.user,
        PSYCOPG2_TESTDB_PASSWORD: host.password,
      });
    const [here, there] = await Promise.all([
      at({ port: service.postgresPort ?? 0, user: 'writer', password: token, database: name }),
      at({ port, user, password: PASSWORD, database }),
    ]);
    expect(there.size).toBeGreaterThan(700);
    const different = [...here].filter(([test, outcome]) => there.get(test) !== outcome);
    expect(Object.fromEntries(different)).toEqual(DIFFERENT);
  });
});
