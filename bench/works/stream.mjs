/** A large result as NDJSON: its speed, and the memory that the service needs for it. */
import { memoryOf, resetMost } from '../cpu.mjs';
import { READ } from '../records.mjs';
import { interleave } from '../rounds.mjs';
import { checkRows, DISTINCT, fill, TABLE } from './read-table.mjs';

const GOAL_ROWS = 1_000_000;
const GOAL_MIB = 64;

export const STREAM = {
  name: 'stream',
  async run(house) {
    const { raw, service } = house.targets;
    const { streamRows: rows } = house.options;
    const targets = [raw, service].filter((target) => target !== undefined);
    for (const target of targets) await fill(target, rows);

    const { pid } = house.service;
    resetMost(pid);
    const before = memoryOf(pid).now;
    const bytes = new Set();
    const measured = await interleave(house, targets, {
      connections: 1,
      unitsPerResponse: rows,
      prepare: (target) => ({
        ...(target === raw ? target.selects(TABLE, READ, rows) : target.streams(TABLE, READ)),
        atMost: 1,
      }),
      reset: async () => {},
      check: async (target, counted) => void (target === service && bytes.add(counted.bytes)),
    });
    const growth = memoryOf(pid).most - before;

    const right = await checkStream(service, rows);
    if (bytes.size !== 1 || !bytes.has(right)) throw new Error(`streams of ${[...bytes]} bytes instead of ${right}`);
    for (const { database } of targets) await database.drop(TABLE);
    const title = `NDJSON of ${rows.toLocaleString('en-US')} rows, 1 connection`;
    const memory = {
      title: `${title}: growth of memory, ${house.options.rounds + 1} streams together`,
      figure: `${growth.toFixed(0)} MiB`,
      goal: `< ${GOAL_MIB} MiB`,
      met: rows < GOAL_ROWS ? null : growth < GOAL_MIB,
    };
    return { rows: [{ title, unit: 'rows/s', measured, goals: { raw: 0.8 } }], facts: [memory] };
  },
};

/**
 * Reads the stream once more, line by line: every row is there once, with its own number and the values of its record.
 * @returns {Promise<number>} its length in bytes
 */
async function checkStream({ service }, rows) {
  const sql = `SELECT ${READ.columns.map(({ name }) => name).join(', ')} FROM ${TABLE}`;
  const response = await fetch(`${service.url}/api/cdp/sql`, {
    method: 'POST',
    headers: { ...service.headers(), 'Content-Type': 'application/json', Accept: 'application/x-ndjson' },
    body: JSON.stringify({ sql }),
  });
  const seen = new Uint8Array(rows);
  const distinct = new Map();
  let bytes = 0;
  let done;
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    bytes += chunk.length;
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (done !== undefined) throw new Error('the stream continues after its last line');
      if (line.startsWith('{"done"')) done = JSON.parse(line);
      else note(line);
    }
  }
  if (rest !== '' || done?.row_count !== rows || seen.includes(0)) throw new Error('the stream is incomplete');
  checkRows([...distinct].map(([n, values]) => JSON.parse(`{"n":${n}${values}`)));
  return bytes;

  function note(line) {
    const comma = line.indexOf(',');
    const n = Number(line.slice('{"n":'.length, comma));
    const values = line.slice(comma);
    const expected = distinct.get(n % DISTINCT);
    if (seen[n] !== 0 || (expected !== undefined && expected !== values)) throw new Error(`wrong line: ${line}`);
    seen[n] = 1;
    distinct.set(n % DISTINCT, values);
  }
}
