/**
 * 231,083 flights, in 925 batches of which eight are on their way at any time: delay (minutes, early is negative),
 * distance (miles), time of departure (hours of the day as a fraction).
 * Shows: a load that may be repeated, exact sums over many rows, FLOAT to INTEGER without loss, a long NDJSON stream.
 *
 *   node examples/flights.mjs http://127.0.0.1:8080 TOKEN
 */
import { randomUUID } from 'node:crypto';
import { batches, connect, inFlight, refusal } from './api.mjs';
import { argumentsOf, check, checkEach, dataset, groupBy, heading, say, timed } from './report.mjs';

const api = connect(...argumentsOf());
const flights = dataset('flights-200k.json');
const records = flights.map((flight, line) => ({ line, ...flight }));

heading('A table for the flights');
await api.dropTable('flights');
const created = await api.createTable({
  table_name: 'flights',
  columns: [
    { name: 'line', type: 'INTEGER', comment: 'Place in the file, from 0' },
    { name: 'delay', type: 'INTEGER', comment: 'Minutes; early is negative' },
    { name: 'distance', type: 'INTEGER', comment: 'Miles' },
    { name: 'time', type: 'FLOAT' },
  ],
});
say(`${created.message}: ${created.columns.join(', ')}`);

heading('All of them, eight batches in flight, each under a key of its own');
const run = randomUUID();
const parts = batches(records);
const insert = (part, i) => api.insert('flights', part, { key: `${run}-${i}` });
await timed(`records in ${parts.length} batches`, records.length, () => inFlight(4, parts, insert));
const again = await Promise.all([0, 399, 799].map((i) => insert(parts[i], i)));
check(
  'three batches sent again are known',
  again.map(({ replayed }) => replayed),
  [true, true, true],
);
check('flights in the table', await api.rows('SELECT count(*) AS n FROM flights'), [{ n: flights.length }]);

heading('Every record again, as NDJSON, to the last digit');
const stored = api.stream('SELECT line, delay, distance, time FROM flights ORDER BY line');
await timed('records streamed and compared', records.length, () => checkEach('read back', stored, records));

heading('The time is in hours; as whole hours it would lose its minutes, so that is refused');
const change = { new_name: 'minute', new_type: 'INTEGER', comment: 'Departure, in minutes after midnight' };
const refused = await refusal(api.alterColumn('flights', 'time', change));
const [, count] = refused.message.match(/(\d+) values/);
check(
  `${refused.status} ${refused.error}: values that are no whole hours`,
  Number(count),
  flights.filter(({ time }) => !Number.isInteger(time)).length,
);
const mended = await api.sql('UPDATE flights SET time = round(time * 60)');
check('in whole minutes instead', mended.row_count, flights.length);
const { column } = await api.alterColumn('flights', 'time', change);
check('the column now', `${column.name} ${column.type}`, 'minute INTEGER');

heading('Questions');
const hourOf = ({ time }) => Math.floor(Math.round(time * 60) / 60);
const sum = (list, of) => list.reduce((total, flight) => total + of(flight), 0);
check(
  'all miles, all minutes late less all minutes early, and delays multiplied by miles',
  await api.rows(`
    SELECT sum(distance) AS miles, sum(delay) AS minutes, sum(delay * distance) AS product FROM flights`),
  [
    {
      miles: sum(flights, ({ distance }) => distance),
      minutes: sum(flights, ({ delay }) => delay),
      product: sum(flights, ({ delay, distance }) => delay * distance),
    },
  ],
);

// percentile_disc: the first value at or past that share of the rows
const percentile = (share) => delays[Math.ceil(share * delays.length) - 1];
const delays = flights.map(({ delay }) => delay).sort((a, b) => a - b);
check(
  'half of the flights, and nine of ten, are at most so late',
  await api.rows(`
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY delay) AS median,
           percentile_disc(0.9) WITHIN GROUP (ORDER BY delay) AS ninety,
           min(delay) AS earliest, max(delay) AS latest
    FROM flights`),
  [{ median: percentile(0.5), ninety: percentile(0.9), earliest: delays[0], latest: delays.at(-1) }],
);

check(
  'the hours with the most delay: flights, minutes late on average, of them more than an hour late',
  await api.rows(`
    SELECT minute / 60 AS hour, count(*) AS flights, round(avg(delay), 2) AS mean,
           count(*) FILTER (WHERE delay > 60) AS late
    FROM flights GROUP BY hour ORDER BY mean DESC LIMIT 8`),
  [...groupBy(flights, hourOf)]
    .map(([hour, group]) => ({
      hour,
      flights: group.length,
      mean: Number((sum(group, ({ delay }) => delay) / group.length).toFixed(2)),
      late: group.filter(({ delay }) => delay > 60).length,
    }))
    .sort((a, b) => b.mean - a.mean)
    .slice(0, 8),
);

check(
  'short, middle and long hauls',
  await api.rows(`
    SELECT CASE WHEN distance < 500 THEN 'short' WHEN distance < 1500 THEN 'middle' ELSE 'long' END AS haul,
           count(*) AS flights, sum(delay) AS minutes
    FROM flights GROUP BY haul ORDER BY flights DESC`),
  [...groupBy(flights, ({ distance }) => (distance < 500 ? 'short' : distance < 1500 ? 'middle' : 'long'))]
    .map(([haul, group]) => ({ haul, flights: group.length, minutes: sum(group, ({ delay }) => delay) }))
    .sort((a, b) => b.flights - a.flights),
);
