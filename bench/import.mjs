/**
 * Imports a large file with `cdp import`: rows per second, and the peak memory of the command. The service and its
 * Postgres run on the same machine.
 *
 *     node bench/import.mjs [--rows N]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';

const { values } = parseArgs({ options: { rows: { type: 'string', default: '5000000' } } });
const rows = Number(values.rows);
const LINES = 10_000;

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

build();
const folder = await mkdtemp(join(tmpdir(), 'cdp-import-'));
// An unprivileged Postgres must be able to pass through it.
await chmod(folder, 0o711);
const program = join(import.meta.dirname, '../dist/cli/bin.js');
const data = join(folder, 'data');
const serve = ['serve', '--port', '0', '--data-dir', data];
const service = spawn(process.execPath, [program, ...serve], { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const file = join(folder, 'large.csv');
  await pipeline(Readable.from(csv()), createWriteStream(file));
  const url = await listening(service);
  const token = readFileSync(join(data, 'first-token'), 'utf8').trim();
  const env = { ...process.env, CDP_URL: url, CDP_TOKEN: token, XDG_STATE_HOME: folder };
  const args = ['import', file, '--table', 'large', '--create', '--json'];
  const command = spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  command.stdout.on('data', (chunk) => (output += chunk));
  let most = 0;
  const timer = setInterval(() => (most = Math.max(most, memoryOf(command.pid))), 100);
  const [code] = await once(command, 'close');
  clearInterval(timer);
  if (code !== 0) throw new Error(`cdp import ended with ${code}`);
  const { inserted, seconds } = JSON.parse(output);
  const megabytes = ((await stat(file)).size / 1e6).toFixed(0);
  process.stdout.write(
    `${inserted} of ${rows} rows (${megabytes} MB) in ${seconds} s, ${Math.round(inserted / seconds)} rows/s, ` +
      `at most ${(most / 1024).toFixed(0)} MiB\n`,
  );
  if (inserted !== rows) process.exitCode = 1;
} finally {
  service.kill('SIGTERM');
  if (service.exitCode === null) await once(service, 'close');
  await rm(folder, { recursive: true, force: true });
}

async function listening({ stdout }) {
  let log = '';
  stdout.on('data', (chunk) => (log += log.length < 10_000 ? chunk : ''));
  for (;;) {
    const url = /"url":"([^"]+)"/.exec(log)?.[1];
    if (url !== undefined) return url;
    await sleep(50);
  }
}

/** The peak memory of a process, in KiB. */
function memoryOf(pid) {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
