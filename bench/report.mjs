/** The tables that the benchmark prints: Markdown whose columns are also aligned in a terminal. */
import { median, ratio } from './rounds.mjs';

/**
 * @typedef {object} Row a work that was compared with raw wire
 * @property {string} title
 * @property {string} unit
 * @property {Record<string, object[]>} measured by target
 * @property {{ raw?: number, postgrest?: number }} goals least ratios
 *
 * @typedef {object} Fact a single figure
 * @property {string} title
 * @property {string} figure
 * @property {string} goal
 * @property {boolean | null} met null: not judged, for instance because it was measured smaller than the goal
 */

/** Speeds, and the service's as shares of the others'. @param {Row[]} rows */
export function ratiosTable(rows) {
  const head = ['work', 'unit', 'raw wire', 'service', 'PostgREST', 'of raw wire', 'goal', 'of PostgREST', 'goal'];
  return table(
    head,
    rows.map(({ title, unit, measured, goals }) => {
      const { raw, service, postgrest } = measured;
      const ofRaw = ratio(service, raw);
      const ofPostgrest = ratio(service, postgrest);
      return [
        title,
        unit,
        ...[raw, service, postgrest].map(speed),
        share(ofRaw),
        verdict(ofRaw, goals.raw),
        share(ofPostgrest),
        verdict(ofPostgrest, goals.postgrest),
      ];
    }),
  );
}

/**
 * Yardsticks for how close to raw wire a server can get on this machine: the same wire with unprepared statements, and
 * twenty-five lines of Node that check nothing. @param {Row[]} rows
 */
export function naiveTable(rows) {
  return table(
    ['of raw wire', 'not prepared', 'naive Node', 'service', 'service, of not prepared', 'service, of naive Node'],
    rows
      .filter(({ measured }) => measured.naive !== undefined)
      .map(({ title, measured: { raw, unprepared, naive, service } }) => [
        title,
        ...[unprepared, naive, service].map((one) => share(ratio(one, raw))),
        ...[unprepared, naive].map((one) => share(ratio(service, one))),
      ]),
  );
}

/** What a million rows (requests, tables) cost, and how busy other processes were. @param {Row[]} rows */
export function cpuTable(rows) {
  const head = ['CPU seconds per million', 'raw wire', 'service', 'PostgREST', 'cores used by others'];
  return table(
    head,
    rows.map(({ title, measured }) => {
      const { raw, service, postgrest } = measured;
      const others = Object.values(measured).flatMap((list) => list.map((one) => one.others));
      return [title, ...[raw, service, postgrest].map(cpuSeconds), median(others).toFixed(1)];
    }),
  );
}

/**
 * The service compared with another version of it: speeds, CPU seconds for a million, and ratios. @param {Row[]} rows
 */
export function beforeTable(rows) {
  const head = ['service', 'before', 'now', 'speed', 'CPU before', 'now', 'service', 'Postgres'];
  const compared = rows.filter(({ measured }) => measured.before !== undefined);
  return table(
    head,
    compared.map(({ title, measured: { before, service } }) => [
      title,
      ...[before, service].map(speed),
      share(ratio(service, before)),
      ...[before, service].map(cpuSeconds),
      ...['serverCpu', 'postgresCpu'].map((name) => share(ratio(service, before, (one) => one[name]))),
    ]),
  );
}

const speed = (list) => (list === undefined ? '' : thousands(median(list.map(({ perSecond }) => perSecond))));

/** Postgres + server. */
function cpuSeconds(list) {
  if (list === undefined) return '';
  const [postgres, server] = ['postgresCpu', 'serverCpu'].map((name) => median(list.map((one) => one[name])));
  return server === 0 ? short(postgres) : `${short(postgres)} + ${short(server)}`;
}

const share = (found) =>
  found === null ? '' : `${found.median.toFixed(2)} (${found.min.toFixed(2)}-${found.max.toFixed(2)})`;

function verdict(found, goal) {
  if (goal === undefined) return '';
  return found === null ? `≥ ${goal}` : `≥ ${goal} ${found.median >= goal ? 'met' : 'MISSED'}`;
}

/** @param {Fact[]} facts */
export const factsTable = (facts) =>
  table(
    ['work', 'measured', 'goal', ''],
    facts.map(({ title, figure, goal, met }) => [title, figure, goal, met === null ? '' : met ? 'met' : 'MISSED']),
  );

const thousands = (value) => Math.round(value).toLocaleString('en-US');

const short = (value) => (value < 10 ? value.toFixed(1) : thousands(value));

export function table(head, rows) {
  const all = [head, ...rows];
  const widths = head.map((_, i) => Math.max(3, ...all.map((row) => row[i].length)));
  const line = (cells) => `| ${cells.map((cell, i) => cell.padEnd(widths[i])).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}
