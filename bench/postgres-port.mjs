/**
 * The Postgres port compared with the server behind it, in one run: pgbench -S, COPY in both directions and a large
 * result. Prints ratios: 1 is as fast as without the service in between.
 *
 *   node bench/postgres-port.mjs [--seconds 5] [--rounds 3] [--clients 8] [--scale 5] [--tcp | --url postgres://…]
 *
 * The direct connection to an embedded server is its Unix socket, which costs a client half of what TCP does. With
 * --tcp it starts the same Postgres on 127.0.0.1 and both connections use TCP, as they do with --url (of Postgres 16 or
 * later).
 *
 * It needs pgbench and psql (Debian: postgresql-contrib and postgresql-client; version 15 is enough), and a build.
 */
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    clients: { type: 'string', default: '8' },
    scale: { type: 'string', default: '5' },
    url: { type: 'string' },
    tcp: { type: 'boolean', default: false },
    serve: { type: 'string' },
  },
});

if (values.serve !== undefined) await serve(values.serve);
else if (values.tcp) await onTcp(compare);
else await compare([]);

/** Starts the embedded Postgres on 127.0.0.1 while `work` runs. */
async function onTcp(work) {
  const { accountFor, run: runAs } = await import('../dist/embedded/accounts.js');
  const { findBinaries } = await import('../dist/embedded/binaries.js');
  const folder = mkdtempSync('/tmp/cdp-bench-server-');
  const account = await accountFor(join(folder, 'data'));
  chownSync(folder, account.uid, account.gid);
  const { bin, environment } = await findBinaries({ folder, account });
  const program = async (name, ...args) => {
    const { code, output } = await runAs(account, join(bin, name), args, environment);
    if (code !== 0) throw new Error(output);
  };
  const data = join(folder, 'data');
  await program('initdb', '-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync');
  const port = await freePort();
  const options = `-c listen_addresses=127.0.0.1 -c port=${port} -c unix_socket_directories= -c fsync=off -c jit=off`;
  await program('pg_ctl', 'start', '-w', '-D', data, '-l', join(folder, 'log'), '-o', options);
  try {
    await work(['--url', `postgres://postgres@127.0.0.1:${port}/postgres`]);
  } finally {
    await program('pg_ctl', 'stop', '-w', '-m', 'immediate', '-D', data);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

/** The service, in a process of its own. */
async function serve(dataDir) {
  const { startService } = await import('../dist/service.js');
  const { loadConfig } = await import('../dist/cli/load-config.js');
  const flags = { 'data-dir': dataDir, port: '0', 'pg-port': '0', 'log-level': 'silent' };
  if (values.url !== undefined) Object.assign(flags, { 'database-url': values.url, secret: 'x'.repeat(32) });
  const service = await startService(loadConfig(flags, {}, null).config);
  const { id, name, placement } = await service.engine.projects.create('bench');
  const { token } = await service.engine.tokens.create(id);
  const tenancy = service.engine.servers.defaultTenancy;
  const { host, port } = tenancy.serverOf(placement).address;
  const { writer, database, schema } = placement;
  const direct = {
    PGHOST: host,
    PGPORT: String(port),
    PGUSER: writer,
    PGPASSWORD: tenancy.password(writer),
    PGDATABASE: database,
    PGOPTIONS: `-c search_path=${schema}`,
  };
  process.send({ name, token, port: service.postgresPort, direct });
  process.on('disconnect', () => void service.close().then(() => process.exit(0)));
}

/** @param more arguments of the service's process */
async function compare(more) {
  const folder = mkdtempSync('/tmp/cdp-bench-');
  execFileSync('chmod', ['711', folder]);
  const child = fork(new URL(import.meta.url), [...process.argv.slice(2), ...more, '--serve', join(folder, 'data')]);
  try {
    const [{ name, token, port, direct }] = await once(child, 'message');
    const ways = {
      direct,
      port: { PGHOST: '127.0.0.1', PGPORT: String(port), PGUSER: 'writer', PGDATABASE: name, PGPASSWORD: token },
    };
    run(ways.port, 'pgbench', '-i', '-q', '-s', values.scale);
    run(ways.port, 'psql', '-c', 'CREATE TABLE copied AS SELECT * FROM pgbench_accounts LIMIT 0');
    const file = join(folder, 'accounts');
    run(ways.direct, 'psql', '-c', `\\copy pgbench_accounts TO ${file}`);
    const bench =
      (mode, user = 'writer') =>
      (way) =>
        transactions(run(way === direct ? way : { ...way, PGUSER: user }, ...pgbench(mode)));
    const once1 =
      (...command) =>
      (way) =>
        perSecond(() => run(way, 'psql', '-q', '-c', ...command));
    const works = {
      'pgbench -S': bench('simple'),
      'pgbench -S -M extended': bench('extended'),
      'pgbench -S -M prepared': bench('prepared'),
      'pgbench -S as reader': bench('simple', 'reader'),
      'pgbench -S -M prepared as reader': bench('prepared', 'reader'),
      'COPY FROM': (way) => {
        run(ways.direct, 'psql', '-q', '-c', 'TRUNCATE copied');
        return once1(`\\copy copied FROM ${file}`)(way);
      },
      'COPY TO': once1('\\copy pgbench_accounts TO /dev/null'),
      'a large result': once1('\\o /dev/null', '-c', 'SELECT * FROM pgbench_accounts', '-A', '-t'),
    };
    for (const [title, work] of Object.entries(works)) {
      const ratios = [];
      let last;
      for (let round = 0; round < Number(values.rounds); round++) {
        const [without, through] = [work(ways.direct), work(ways.port)];
        ratios.push(through / without);
        last = `${Math.round(without * 10) / 10}/s direct, ${Math.round(through * 10) / 10}/s through the port`;
      }
      ratios.sort((a, b) => a - b);
      const [least, median, most] = [ratios[0], ratios[Math.floor(ratios.length / 2)], ratios.at(-1)];
      console.log(`${title.padEnd(34)} ${median.toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)}), ${last}`);
    }
  } finally {
    child.disconnect();
    await once(child, 'exit');
    rmSync(folder, { recursive: true, force: true });
  }
}

function run(way, program, ...args) {
  return execFileSync(program, args, { env: { ...process.env, ...way }, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
}

function pgbench(mode) {
  const { clients, seconds } = values;
  return ['pgbench', '-n', '-S', '-M', mode, '-c', clients, '-j', '2', '-T', seconds];
}

function transactions(output) {
  return Number(/tps = ([\d.]+)/.exec(output)[1]);
}

function perSecond(work) {
  const began = performance.now();
  work();
  return 1_000 / (performance.now() - began);
}
