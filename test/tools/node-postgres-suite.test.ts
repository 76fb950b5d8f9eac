/**
 * node-postgres' own integration tests, unchanged, at the Postgres port. `scripts/debian-sources.mjs` fetches
 * them; if they are missing, this test says so.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startOwnService, type TestService } from '../support/service.js';

const suite = fileURLToPath(new URL('clients/node_modules/node-postgres-suite/packages/pg/', import.meta.url));
const isThere = existsSync(suite);
if (!isThere) console.warn("NOT TESTED: node-postgres' own tests, since Debian's source package has no version 8.16.3");

const LEFT_OUT = [
  // It ends another session by way of psql at the database template1.
  'gh-issues/130-tests.js',
  // They talk to servers of their own and so do not test this one.
  'client/connection-timeout-tests.js',
  'client/network-partition-tests.js',
  'gh-issues/2079-tests.js',
  'gh-issues/2627-tests.js',
  'gh-issues/3174-tests.js',
];
/** Waits that are too short for a busy machine. */
const WAITS: readonly { file: string; from: string; to: string }[] = [
  { file: 'suite.js', from: 'this.timeout = 5000', to: 'this.timeout = 60000' },
  // By then the pool must have connected.
  { file: 'integration/connection-pool/error-tests.js', from: '}, 100)', to: '}, 5000)' },
];
/** They wait more than they work. */
const AT_ONCE = 3;

describe.runIf(isThere)("node-postgres' own tests", () => {
  let service: TestService;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cdp-tls-'));
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const made = ['-subj', '/CN=localhost', '-keyout', key, '-out', cert];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...made], {
      stdio: 'ignore',
    });
    service = await startOwnService({ 'pg-port': '0', 'tls-cert': cert, 'tls-key': key });
  });
  afterAll(async () => {
    await service?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('pass', async () => {
    for (const { file, from, to } of WAITS) {
      const path = join(suite, 'test', file);
      writeFileSync(path, readFileSync(path, 'utf8').replaceAll(from, to));
    }
    const folderOfTests = join(suite, 'test/integration');
    const files = readdirSync(folderOfTests, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('-tests.js') && !LEFT_OUT.includes(name))
      .sort();
    expect(files).toHaveLength(70);
    const failed: string[] = [];
    const waiting = files.values();
    const work = async () => {
      // Some tests look at all sessions of their database.
      const { name, token } = await service.project();
      const env = {
        ...{ PATH: process.env.PATH, PGHOST: '127.0.0.1', PGPORT: String(service.postgresPort) },
        ...{ PGUSER: 'writer', PGPASSWORD: token, PGDATABASE: name, TEST_TIMEOUT: '60000' },
      };
      const run = (file: string) =>
        promisify(execFile)(process.execPath, [file], { cwd: suite, env, timeout: 100_000 });
      await run('script/create-test-tables.js');
      for (const file of waiting) {
        await run(join(folderOfTests, file)).catch((error: { stdout?: string; stderr?: string }) =>
          failed.push(`${file}: ${error.stdout}${error.stderr}`),
        );
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(failed).toEqual([]);
  });
});
