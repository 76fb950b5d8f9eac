/** What an example prints, and its verdict: the process exits with 1 if any response differs from the file. */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';

/** The base URL and the token, from the command line. */
export function argumentsOf([, program, url, token] = process.argv) {
  if (token !== undefined) return [url.replace(/\/$/, ''), token];
  console.error(`Usage: node ${program} URL TOKEN`);
  process.exit(2);
}

export function dataset(file) {
  return JSON.parse(readFileSync(new URL(`../node_modules/vega-datasets/data/${file}`, import.meta.url), 'utf8'));
}

/** Map.groupBy, which Node 20 lacks. */
export function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (groups.has(key)) groups.get(key).push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

export const heading = (text) => console.log(`\n${text}`);
export const say = (text) => console.log(`  ${text}`);

/** Runs the load and says how fast it was. */
export async function timed(what, count, load) {
  const start = performance.now();
  await load();
  const seconds = (performance.now() - start) / 1000;
  const rate = Math.round(count / seconds);
  say(`${count.toLocaleString('en')} ${what} in ${seconds.toFixed(2)} s: ${rate.toLocaleString('en')} rows/s`);
}

/** @param expected the same response, computed from the file by other means */
export function check(question, response, expected) {
  const same = isDeepStrictEqual(response, expected);
  if (!same) process.exitCode = 1;
  say(`${same ? '✓' : '✗'} ${question}${shown(response)}`);
  if (!same) say(`  but by the file${shown(expected)}`);
}

/** Several rows have a line each; a single row, or another value, follows the question. */
function shown(response) {
  const rows = [response].flat();
  if (rows.length === 0 || Object(rows[0]) !== rows[0]) return `: ${cell(response)}`;
  if (rows.length === 1) return `: ${named(rows[0])}`;
  const lines = rows.slice(0, 9).map((row) => `\n      ${Object.values(row).map(cell).join('  ')}`);
  return lines.join('') + (rows.length > 9 ? `\n      … ${rows.length} rows` : '');
}

const named = (row) =>
  Object.entries(row)
    .map(([name, value]) => `${name} ${cell(value)}`)
    .join(', ');

function cell(value) {
  if (typeof value === 'number' && value >= 10_000) return value.toLocaleString('en');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * Compares every record with its source, and their number.
 * @param stored iterable of records, in the order of `source`
 */
export async function checkEach(what, stored, source) {
  let records = 0;
  let different = 0;
  for await (const record of stored) {
    const expected = source[records++] ?? {};
    const names = Object.keys({ ...expected, ...record });
    const wrong = names.filter((name) => !isDeepStrictEqual(record[name], expected[name]));
    if (wrong.length === 0 || ++different > 3) continue;
    for (const name of wrong)
      say(`✗ record ${records - 1}, ${name}: ${cell(record[name])}, not ${cell(expected[name])}`);
  }
  check(what, { records, different }, { records: source.length, different: 0 });
}
