/**
 * Writes down what a version of the program leaves in Postgres, for the test that later versions take it over:
 *
 *     node test/faults/releases/dump.mjs test/faults/releases/NAME.json
 *
 * Run it from the root of a built checkout of that version, on a machine with Debian's Postgres 15 (any later server
 * can read its dumps). It creates a project with a table, rows, a key and tokens, using the program's own commands and
 * its API.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const programs = '/usr/lib/postgresql/15/bin';
const folder = mkdtempSync('/tmp/cdp-dump-');
chmodSync(folder, 0o711);
const data = join(folder, 'data');
// Postgres refuses root.
const account = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
mkdirSync(data, { mode: 0o700 });
if (account.uid !== undefined) for (const path of [folder, data]) chownSync(path, account.uid, account.gid);
const run = (program, ...args) =>
  execFileSync(join(programs, program), args, { ...account, encoding: 'utf8', cwd: '/' });
const postgres = (...args) => run('pg_ctl', ...args, '-w', '-D', data, '-l', join(folder, 'log'));

run('initdb', '-D', data, '-U', 'cdp', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8');
postgres('start', '-o', `-c unix_socket_directories=${folder} -c listen_addresses=`);
try {
  const at = ['-h', folder, '-U', 'cdp'];
  const env = {
    PATH: process.env.PATH,
    DATABASE_URL: `postgres://cdp:none@/cdp?host=${encodeURIComponent(folder)}`,
    CDP_SECRET: 's'.repeat(32),
  };
  run('createdb', ...at, 'cdp');
  const cdp = (...args) => execFileSync(process.execPath, ['dist/cli/bin.js', ...args], { env, encoding: 'utf8' });
  cdp('project', 'create', 'shop');
  const token = JSON.parse(cdp('token', 'create', '--project', 'shop', '--json')).token;
  const service = spawn(process.execPath, ['dist/cli/bin.js', 'serve', '--port', '0'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let url;
  for await (const line of createInterface({ input: service.stdout })) {
    ({ url } = JSON.parse(line));
    if (url !== undefined) break;
  }
  const post = async (path, body, headers = {}) => {
    const authorization = `Bearer ${token}`;
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(await response.text());
  };
  const columns = ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP', 'JSONB'].map((type) => ({
    name: type.toLowerCase(),
    type,
  }));
  await post('/api/cdp/schema/table', { table_name: 'kept', comment: 'of an older version', columns });
  const record = {
    text: 'ä "quoted"',
    integer: '9007199254740993',
    float: 0.1,
    boolean: true,
    timestamp: '2026-01-01T00:00:00.123456Z',
    jsonb: { n: 1.1 },
  };
  await post('/api/cdp/data/kept', [record, {}], { 'idempotency-key': 'of an older version' });
  service.kill();
  await once(service, 'exit');

  const query = (database, text) => run('psql', ...at, '-d', database, '-At', '-c', text).trim();
  const [database, writer, reader] = query(
    'cdp',
    'SELECT database_name, writer_role, reader_role FROM cdp.projects',
  ).split('|');
  const dump = (name, ...args) =>
    run('pg_dump', ...at, '--inserts', ...args, name)
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('--') && !line.startsWith('\\'))
      // An earlier minor release does not know this option of columns.
      .filter((line) => !/ SET \(pg_attver=\d+\);$/.test(line));
  const version = (name, schema) => Number(query(name, `SELECT max(version) FROM ${schema}.migrations`));
  writeFileSync(
    resolve(process.argv[2]),
    JSON.stringify(
      {
        program: JSON.parse(readFileSync('package.json', 'utf8')).version,
        control: version('cdp', 'cdp'),
        project: version(database, '_cdp'),
        token,
        record,
        database,
        roles: { group: database, writer, reader },
        // The rights on the database itself are not part of its dump.
        acl: query(database, `SELECT datacl::text FROM pg_database WHERE datname = '${database}'`),
        memberships: query(
          'cdp',
          `SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid
          JOIN pg_roles m ON m.oid = a.member WHERE r.rolname IN ('${database}', '${writer}', '${reader}')`,
        ).split('\n'),
        controlSql: dump('cdp'),
        projectSql: dump(database),
      },
      null,
      1,
    ) + '\n',
  );
} finally {
  postgres('stop', '-m', 'immediate');
  rmSync(folder, { recursive: true, force: true });
}
