/**
 * Imports a large file with `cdp import`, as a ratio of `psql \copy` of the same file into a table like it, by the time that
 * each command takes; and the peak memory of `cdp import`. Service, Postgres and both programs run on this machine.
 *
 *     node bench/import.mjs [--rows N] [--rounds N] [--create]
 *
 * It needs psql. With `--create` each import creates its table, so it reads the file once more, for the types.
 */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '3' },
    create: { type: 'boolean', default: false },
    serve: { type: 'string' },
  },
});
const rows = Number(values.rows);
const LINES = 10_000;

if (values.serve === undefined) await compare();
else await serve(values.serve);

/** The service, in a process of its own. */
async function serve(dataDir) {
  const { startService } = await import('../dist/service.js');
  const { loadConfig } = await import('../dist/cli/load-config.js');
  const service = await startService(
    loadConfig({ 'data-dir': dataDir, port: '0', 'log-level': 'silent' }, {}, null).config,
  );
  const { id, placement } = await service.engine.projects.create('bench');
  const { token } = await service.engine.tokens.create(id);
  const tenancy = service.engine.servers.defaultTenancy;
  const { host, port } = tenancy.serverOf(placement).address;
  const direct = {
    PGHOST: host,
    PGPORT: String(port),
    PGUSER: placement.writer,
    PGPASSWORD: tenancy.password(placement.writer),
    PGDATABASE: placement.database,
    PGOPTIONS: `-c search_path=${placement.schema}`,
  };
  process.send({ url: service.url, token, direct });
  process.on('disconnect', () => void service.close().then(() => process.exit(0)));
}

async function compare() {
  build();
  const folder = await mkdtemp(join(tmpdir(), 'cdp-import-'));
  // An unprivileged Postgres must be able to pass through it.
  await chmod(folder, 0o711);
  const service = fork(import.meta.filename, ['--serve', join(folder, 'data')]);
  try {
    const file = join(folder, 'large.csv');
    await pipeline(Readable.from(csv()), createWriteStream(file));
    const [{ url, token, direct }] = await once(service, 'message');
    const env = { ...process.env, CDP_URL: url, CDP_TOKEN: token, XDG_STATE_HOME: folder };
    const tables = { psql: 'copied', cdp: 'imported' };
    const taken = { psql: [], cdp: [] };
    let memory = 0;
    // Its server starts with the first request.
    await createTable(url, token, 'awake');
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const table of Object.values(tables)) {
        await run('psql', ['-qc', `DROP TABLE IF EXISTS ${table}`], direct);
        if (table === tables.psql || !values.create) await createTable(url, token, table);
      }
      const copy = `\\copy ${tables.psql} (n, name, amount, at, flag, note) FROM ${file} CSV HEADER`;
      taken.psql.push((await run('psql', ['-qc', copy], direct)).seconds);
      const program = join(import.meta.dirname, '../dist/cli/bin.js');
      const args = [program, 'import', file, '--table', tables.cdp, ...(values.create ? ['--create'] : []), '--json'];
      const { seconds, output, most } = await run(process.execPath, args, env);
      taken.cdp.push(seconds);
      memory = Math.max(memory, most);
      const { inserted } = JSON.parse(output);
      if (inserted !== rows) throw new Error(`${inserted} of ${rows} rows`);
    }
    const ratios = taken.psql.map((seconds, round) => seconds / taken.cdp[round]);
    const shown = (numbers, digits) => numbers.map((number) => number.toFixed(digits)).join(', ');
    process.stdout.write(
      `${rows} rows (${((await stat(file)).size / 1e6).toFixed(0)} MB): psql \\copy ${shown(taken.psql, 1)} s, ` +
        `cdp import ${shown(taken.cdp, 1)} s, ratios ${shown(ratios, 2)}; at most ${(memory / 1024).toFixed(0)} MiB\n`,
    );
  } finally {
    service.disconnect();
    if (service.exitCode === null) await once(service, 'exit');
    await rm(folder, { recursive: true, force: true });
  }
}

function* csv() {
  yield 'n,name,amount,at,flag,note\n';
  for (let from = 0; from < rows; from += LINES) {
    let text = '';
    for (let n = from; n < Math.min(rows, from + LINES); n++) {
      const note = ['', '""', 'text é'][n % 3];
      text += `${n},"name, ${n}",${n / 100},2026-01-31T09:30:${String(n % 60).padStart(2, '0')}Z,${n % 2 === 0},${note}\n`;
    }
    yield text;
  }
}

async function createTable(url, token, name) {
  const types = { n: 'INTEGER', name: 'TEXT', amount: 'FLOAT', at: 'TIMESTAMP', flag: 'BOOLEAN', note: 'TEXT' };
  const columns = Object.entries(types).map(([column, type]) => ({ name: column, type }));
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ table_name: name, columns });
  const { status } = await fetch(`${url}/api/cdp/schema/table`, { method: 'POST', headers, body });
  if (status !== 201) throw new Error(`The table was not created: ${status}`);
}

/** Runs a command to its end. @throws Error if it fails */
async function run(command, args, env) {
  const begin = performance.now();
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  let most = 0;
  child.stdout.on('data', (chunk) => (output += chunk));
  const timer = setInterval(() => (most = Math.max(most, memoryOf(child.pid))), 100);
  const [code] = await once(child, 'close');
  clearInterval(timer);
  if (code !== 0) throw new Error(`${command} ended with ${code}`);
  return { seconds: (performance.now() - begin) / 1_000, output, most };
}

/** The peak memory of a process, in KiB. */
function memoryOf(pid) {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
