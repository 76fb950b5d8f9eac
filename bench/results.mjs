/**
 * Results of every type and shape: `node bench/results.mjs [options]`. For each, what a value costs the service and its
 * Postgres in CPU time, compared with raw wire, which requests text. The worst come first.
 */
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { table } from './report.mjs';
import { median } from './rounds.mjs';
import { columnList, createTableAs, KINDS } from './result-shapes.mjs';

const { values: given } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    formats: { type: 'string', default: 'json' },
    columns: { type: 'string', default: '8' },
    rows: { type: 'string', default: '10000' },
    connections: { type: 'string', default: '8' },
    roles: { type: 'string', default: 'writer' },
    seconds: { type: 'string', default: '0.6' },
    rounds: { type: 'string', default: '1' },
    /** The `dist` of another version of the project, measured in turn with this one. */
    before: { type: 'string' },
  },
});
const list = (text) => text.split(',').filter((part) => part !== '');
const numbers = (text) => list(text).map(Number);
const [seconds, rounds] = [Number(given.seconds), Number(given.rounds)];

const ACCEPT = { json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' };
const TABLE = 'shape';

build();
const { House } = await import('./house.mjs');
const house = new House({ seconds, profile: false, postgrest: false, before: given.before });

/** Orders by target; each target has its own table with the same contents. */
function orders(columns, rows, format, role) {
  const { raw, ...services } = house.targets;
  const names = columnList(columns);
  const where = role === 'parameter' ? 'WHERE n >= $1' : '';
  const params = role === 'parameter' ? ['0'] : [];
  const made = new Map([[raw, raw.query(`SELECT ${names} FROM ${TABLE} ${where}`, params, rows)]]);
  for (const target of Object.values(services)) {
    const body = { sql: `SELECT ${names} FROM ${TABLE} ${where}`, max_rows: Math.max(rows, 1) };
    if (role === 'reader') body.read_only = true;
    if (params.length > 0) body.params = [0];
    const request = target.service.request('/sql', body, { headers: { Accept: ACCEPT[format] } });
    made.set(target, { requests: [request] });
  }
  return made;
}

async function fill(kind, columns, rows) {
  for (const { database } of Object.values(house.targets)) {
    await database.client.query(`DROP TABLE IF EXISTS ${database.table(TABLE)}`);
    await database.client.query(createTableAs(database.table(TABLE), kind, columns, rows));
    await database.client.query(`GRANT SELECT ON ${database.table(TABLE)} TO PUBLIC`);
    await database.client.query(`VACUUM ANALYZE ${database.table(TABLE)}`);
  }
}

const found = [];

async function measure(kind, columns, rows, format, connections, role) {
  const measured = new Map();
  const made = orders(columns, rows, format, role);
  for (const [target, order] of made) {
    measured.set(target, []);
    await house.warmUp(target, { ...order, connections });
  }
  for (let round = 0; round < rounds; round++) {
    for (const [target, order] of made) {
      measured.get(target).push(await house.measure(target, { ...order, connections }, rows * columns));
    }
  }
  const of = (target, name) => median(measured.get(target).map((one) => one[name])) * 1000;
  const { raw, service, before } = house.targets;
  const sum = (target) => of(target, 'postgresCpu') + of(target, 'serverCpu');
  const bytes = measured.get(service)[0].bytes / measured.get(service)[0].responses / rows / columns;
  const row = [
    [kind, columns, rows, format, connections, role].join(', '),
    bytes.toFixed(0),
    of(raw, 'postgresCpu').toFixed(0),
    ...[service, before].flatMap((target) =>
      target === undefined
        ? []
        : [
            of(target, 'postgresCpu').toFixed(0),
            of(target, 'serverCpu').toFixed(0),
            (of(raw, 'postgresCpu') / sum(target)).toFixed(2),
          ],
    ),
    (of(service, 'perSecond') / of(raw, 'perSecond')).toFixed(2),
  ];
  process.stderr.write(`${row.join('  ')}\n`);
  found.push({ share: of(raw, 'postgresCpu') / sum(service), row });
}

try {
  await house.open();
  const only = list(given.only);
  const kinds = KINDS.filter((kind) => only.length === 0 || only.includes(kind));
  for (const kind of kinds) {
    for (const columns of numbers(given.columns)) {
      for (const rows of numbers(given.rows)) {
        await fill(kind, columns, rows);
        for (const format of list(given.formats)) {
          for (const connections of numbers(given.connections)) {
            for (const role of list(given.roles)) await measure(kind, columns, rows, format, connections, role);
          }
        }
      }
    }
  }
} finally {
  await house.close();
}
const ofService = ['Postgres', 'service', 'CPU of raw'];
process.stdout.write(
  `CPU in nanoseconds a value\n\n${table(
    [
      'value, columns, rows, format, connections, role',
      'bytes',
      'raw',
      ...ofService,
      ...(given.before === undefined ? [] : ofService.map((name) => `${name} before`)),
      'speed of raw',
    ],
    found.sort((a, b) => a.share - b.share).map(({ row }) => row),
  )}\n`,
);
