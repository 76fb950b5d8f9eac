/**
 * Streams into a table, one connection, compared with `psql \copy` of the same rows in the same run; and the memory of the
 * service at a large stream against a small one.
 *
 *   node bench/streams.mjs [--rows 500000] [--rounds 5] [--gigabytes 1] [--only ndjson,csv,atomic,memory] [--profile FILE]
 *
 * psql copies CSV by the server's Unix socket into a table like the service's. curl sends the same rows as NDJSON and as CSV. It
 * needs psql and curl.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, closeSync, mkdtempSync, openSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { cpuOfTree, memoryOf, resetMost } from './cpu.mjs';
import { createTable, Database } from './database.mjs';
import { COMMON } from './records.mjs';
import { median } from './rounds.mjs';
import { Service } from './servers/service.mjs';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '500000' },
    rounds: { type: 'string', default: '5' },
    gigabytes: { type: 'string', default: '1' },
    only: { type: 'string', default: 'ndjson,csv,atomic,memory' },
    profile: { type: 'string' },
    settings: { type: 'string', default: '' },
  },
});
const [rows, rounds] = [Number(values.rows), Number(values.rounds)];
const works = values.only.split(',');

const GOAL = 0.7;
const GOAL_MIB = 64;
const SMALL_BYTES = 40e6;

const names = COMMON.columns.map(({ name }) => name);
const TYPES = { ndjson: 'application/x-ndjson', csv: 'text/csv' };

const cell = (value) => {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const TEXT = {
  ndjson: (n) => `${JSON.stringify(COMMON.record(n))}\n`,
  csv: (n) => {
    const record = COMMON.record(n);
    return `${names.map((name) => cell(record[name])).join()}\n`;
  },
};
const HEAD = { ndjson: '', csv: `${names.join()}\n` };

function writeFile(path, format) {
  const file = openSync(path, 'w');
  let text = HEAD[format];
  for (let n = 0; n < rows; n++) {
    text += TEXT[format](n);
    if (text.length > 1e6 || n === rows - 1) {
      writeSync(file, text);
      text = '';
    }
  }
  closeSync(file);
}

const folder = mkdtempSync(join(tmpdir(), 'cdp-bench-'));
// An unprivileged Postgres must be able to pass through it.
chmodSync(folder, 0o711);
const service = new Service(folder);
service.settings = values.settings.split(' ').filter(Boolean);
const files = { ndjson: join(folder, 'rows.ndjson'), csv: join(folder, 'rows.csv') };
try {
  for (const format of Object.keys(files)) writeFile(files[format], format);
  await service.start();
  await service.createTable('streamed', COMMON.columns);
  const superuser = await service.superuser();
  const database = await Database.open(superuser, 'project', 'data');
  await database.client.query(createTable('data.copied', COMMON.columns));
  const postmaster = await service.postmaster();

  const copy = () => {
    const { host, port, user } = superuser;
    const env = { ...process.env, PGHOST: host, PGPORT: String(port), PGUSER: user, PGDATABASE: 'project' };
    const command = `\\copy data.copied (${names.join()}) FROM ${files.csv} CSV HEADER`;
    execFileSync('psql', ['-q', '-c', command], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  };
  const send = (format, query = '') => {
    const url = `${service.url}/api/cdp/data/streamed${query}`;
    const headers = [`Authorization: Bearer ${service.token}`, `Content-Type: ${TYPES[format]}`];
    const args = ['-sS', '--fail-with-body', '-X', 'POST', '-T', files[format], ...headers.flatMap((h) => ['-H', h])];
    const answer = JSON.parse(
      execFileSync('curl', [...args, url], { stdio: ['ignore', 'pipe', 'inherit'] }).toString(),
    );
    if (answer.inserted_rows !== rows) throw new Error(JSON.stringify(answer));
  };
  const measure = async (work) => {
    for (const table of ['copied', 'streamed']) await database.reset(table);
    const cpu = () => ({ postgres: cpuOfTree(postmaster), service: service.cpu });
    const before = cpu();
    const began = performance.now();
    work();
    const seconds = (performance.now() - began) / 1_000;
    const after = cpu();
    const million = rows / 1e6;
    return {
      rate: rows / seconds,
      postgres: (after.postgres - before.postgres) / million,
      service: (after.service - before.service) / million,
    };
  };
  const compare = async () => {
    const [one, other] = await Promise.all(
      ['copied', 'streamed'].map(async (table) => {
        const [row] = await database.rows(
          `SELECT count(*), sum(pg_catalog.hashtextextended(ROW(${names.join()})::text, 0)) FROM data.${table}`,
        );
        return JSON.stringify(row);
      }),
    );
    if (one !== other) throw new Error(`The tables differ: ${one} and ${other}`);
  };

  const ways = { ndjson: () => send('ndjson'), csv: () => send('csv'), atomic: () => send('ndjson', '?atomic=true') };
  const streams = Object.keys(ways).filter((name) => works.includes(name));
  if (streams.length > 0) {
    // V8 compiles the service meanwhile.
    await measure(copy);
    for (const name of streams) await measure(ways[name]);
    if (values.profile !== undefined) await service.ask('startProfile');
    const measured = Object.fromEntries(['copy', ...streams].map((name) => [name, []]));
    for (let round = 0; round < rounds; round++) {
      if (values.profile === undefined) measured.copy.push(await measure(copy));
      for (const name of streams) measured[name].push(await measure(ways[name]));
    }
    if (values.profile !== undefined) await service.ask('stopProfile', values.profile);
    const show = (all, of) => median(all.map((one) => one[of]));
    const megabytes = (statSync(files.ndjson).size / 1e6).toFixed(0);
    console.log(`${rows} rows of ${COMMON.columns.length} columns, ${megabytes} MB of NDJSON; ${rounds} rounds`);
    for (const [name, all] of Object.entries(measured)) {
      if (all.length === 0) continue;
      const ratios = all.map(({ rate }, i) => rate / (measured.copy[i]?.rate ?? NaN)).sort((a, b) => a - b);
      const goal = name === 'ndjson' || name === 'csv' ? ` (goal ${GOAL})` : '';
      console.log(
        `${name.padEnd(8)} ${Math.round(show(all, 'rate'))} rows/s, ${median(ratios).toFixed(2)} of \\copy ` +
          `(${ratios[0].toFixed(2)}-${ratios.at(-1).toFixed(2)})${goal}; CPU s a million rows: ` +
          `Postgres ${show(all, 'postgres').toFixed(1)}, service ${show(all, 'service').toFixed(1)}`,
      );
    }
    if (values.profile === undefined) {
      await measure(copy);
      send(streams.includes('csv') ? 'csv' : 'ndjson');
      await compare();
    }
  }
  if (works.includes('memory')) {
    for (const [format, query] of [
      ['ndjson', ''],
      ['csv', ''],
      ['ndjson', '?atomic=true'],
    ]) {
      const most = [];
      for (const bytes of [SMALL_BYTES, Number(values.gigabytes) * 1e9]) {
        await database.reset('streamed');
        resetMost(service.pid);
        await generate(format, query, bytes);
        most.push(memoryOf(service.pid).most);
      }
      const [small, large] = most.map((mib) => mib.toFixed(0));
      console.log(
        `${format}${query}: memory of the service at most ${small} MiB at 40 MB, ${large} MiB at ${values.gigabytes} GB ` +
          `(goal: ${GOAL_MIB} MiB more at most)`,
      );
    }
  }
  await database.close();
} finally {
  await service.remove();
  execFileSync('rm', ['-rf', folder]);
}

/** Sends so many bytes of records, made on the way. */
async function generate(format, query, bytes) {
  const args = ['-sS', '--fail-with-body', '-X', 'POST', '-T', '-', '-H', `Authorization: Bearer ${service.token}`];
  const url = `${service.url}/api/cdp/data/streamed${query}`;
  const curl = spawn('curl', [...args, '-H', `Content-Type: ${TYPES[format]}`, url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let answer = '';
  curl.stdout.on('data', (data) => (answer += data));
  const closed = once(curl, 'close');
  // The same part again and again: making the records would take longer than storing them.
  let part = '';
  for (let n = 0; n < 4_000; n++) part += TEXT[format](n);
  const piece = Buffer.from(part);
  curl.stdin.write(HEAD[format]);
  for (let sent = 0; sent < bytes; sent += piece.length) if (!curl.stdin.write(piece)) await once(curl.stdin, 'drain');
  curl.stdin.end();
  const [code] = await closed;
  if (code !== 0) throw new Error(answer);
}
