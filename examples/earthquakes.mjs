/**
 * A week of earthquakes (USGS): nested JSON, epoch milliseconds, nulls.
 * Shows: a refused batch and what its response names, Idempotency-Key, text to TIMESTAMP, JSONB operators, NDJSON.
 *
 *   node examples/earthquakes.mjs http://127.0.0.1:8080 TOKEN
 */
import { randomUUID } from 'node:crypto';
import { batches, connect, inFlight, refusal } from './api.mjs';
import { argumentsOf, check, checkEach, dataset, groupBy, heading, say, timed } from './report.mjs';

const api = connect(...argumentsOf());
const { features, metadata, bbox } = dataset('earthquakes.json');

heading('A table for the earthquakes of a week');
await api.dropTable('earthquakes');
const created = await api.createTable({
  table_name: 'earthquakes',
  comment: metadata.title,
  columns: [
    { name: 'usgs_id', type: 'TEXT' },
    { name: 'time', type: 'TEXT' },
    { name: 'updated', type: 'TIMESTAMP' },
    { name: 'mag', type: 'FLOAT' },
    { name: 'place', type: 'TEXT' },
    { name: 'felt', type: 'INTEGER', comment: 'Reports by people' },
    { name: 'properties', type: 'JSONB', comment: 'All that USGS says of it' },
    { name: 'coordinates', type: 'JSONB', comment: 'Longitude, latitude, depth in km' },
  ],
});
say(`${created.message}: ${created.columns.join(', ')}`);

heading('The first batch as it is in the file is refused, each wrong cell by name');
const isoTime = (milliseconds) => new Date(milliseconds).toISOString();
const records = features.map(({ id, properties, geometry }) => ({
  usgs_id: id,
  time: isoTime(properties.time),
  updated: isoTime(properties.updated),
  mag: properties.mag,
  place: properties.place,
  felt: properties.felt,
  properties,
  coordinates: geometry.coordinates,
}));
const raw = records.slice(0, 250).map((record) => ({ ...record, updated: record.properties.updated }));
const refused = await refusal(api.insert('earthquakes', raw));
const [firstCell] = refused.errors;
say(`${refused.status} ${refused.error}: ${firstCell.message} (${firstCell.hint})`);
check('wrong cells of that batch', refused.error_count, raw.length);
check('the first of them', { record: firstCell.record, column: firstCell.column }, { record: 0, column: 'updated' });
check('records stored of it', await api.rows('SELECT count(*) AS n FROM earthquakes'), [{ n: 0 }]);

heading('With the times as RFC 3339 they are stored, and stored once');
const run = randomUUID();
const parts = batches(records);
const insert = (part, i) => api.insert('earthquakes', part, { key: `${run}-${i}` });
await timed(`records in ${parts.length} batches`, records.length, () => inFlight(4, parts, insert));
const { inserted_rows, replayed } = await insert(parts[0], 0);
check('the first batch sent again', { inserted_rows, replayed }, { inserted_rows: 250, replayed: true });
check('records in the table', await api.rows('SELECT count(*) AS n FROM earthquakes'), [{ n: metadata.count }]);

heading('One column changes name, type and comment at once, another its name');
await api.alterColumn('earthquakes', 'time', {
  new_name: 'happened_at',
  new_type: 'TIMESTAMP',
  comment: 'When the ground began to shake',
});
await api.alterColumn('earthquakes', 'mag', { new_name: 'magnitude' });
const { columns } = await api.readTable('earthquakes');
check(
  'columns now',
  columns.map(({ name, type }) => `${name} ${type}`).join(', '),
  'id uuid, usgs_id TEXT, happened_at TIMESTAMP, updated TIMESTAMP, magnitude FLOAT, place TEXT, felt INTEGER, ' +
    'properties JSONB, coordinates JSONB',
);

heading('Questions');
const byDay = groupBy(features, ({ properties }) => isoTime(properties.time).slice(0, 10));
check(
  'the strongest earthquake of each day',
  await api.rows(`
    SELECT DISTINCT ON (day) (happened_at AT TIME ZONE 'UTC')::date AS day, magnitude, place
    FROM earthquakes ORDER BY day, magnitude DESC, happened_at`),
  [...byDay.keys()].sort().map((day) => {
    const [strongest] = byDay
      .get(day)
      .toSorted(({ properties: a }, { properties: b }) => b.mag - a.mag || a.time - b.time);
    return { day, magnitude: strongest.properties.mag, place: strongest.properties.place };
  }),
);

const count = (test) => features.filter(test).length;
check(
  'nulls: reports by people, shaking on the Mercalli scale; and more than a degree from any station',
  await api.rows(`
    SELECT count(*) FILTER (WHERE felt IS NULL) AS unfelt,
           count(*) FILTER (WHERE properties -> 'mmi' = 'null') AS no_mmi,
           count(*) FILTER (WHERE (properties ->> 'dmin')::float8 > 1) AS far
    FROM earthquakes`),
  [
    {
      unfelt: count(({ properties }) => properties.felt === null),
      no_mmi: count(({ properties }) => properties.mmi === null),
      far: count(({ properties }) => properties.dmin > 1),
    },
  ],
);

check(
  'with a green alert, by a JSONB parameter',
  await api.rows('SELECT count(*) AS n FROM earthquakes WHERE properties @> $1', [{ alert: 'green' }]),
  [{ n: count(({ properties }) => properties.alert === 'green') }],
);

check(
  'the busiest networks',
  await api.rows(`
    SELECT properties ->> 'net' AS net, count(*) AS n, max(magnitude) AS strongest
    FROM earthquakes GROUP BY net ORDER BY n DESC, 1 LIMIT 5`),
  [...groupBy(features, ({ properties }) => properties.net)]
    .map(([net, group]) => ({ net, n: group.length, strongest: Math.max(...group.map((f) => f.properties.mag)) }))
    .sort((a, b) => b.n - a.n || (a.net < b.net ? -1 : 1))
    .slice(0, 5),
);

const lowest = [0, 1, 2].map((axis) => `min((coordinates ->> ${axis})::float8) AS low_${axis}`);
const highest = [0, 1, 2].map((axis) => `max((coordinates ->> ${axis})::float8) AS high_${axis}`);
const [box] = await api.rows(`SELECT ${[...lowest, ...highest].join(', ')} FROM earthquakes`);
check('the box around all of them, which the file states itself', Object.values(box), bbox);

const sum = (values) => Number(values.reduce((total, value) => total + BigInt(value), 0n));
check(
  'reports by people; all times added up in milliseconds, from the TIMESTAMP and from the JSON',
  await api.rows(`
    SELECT sum(felt) AS reports,
           sum(extract(epoch FROM happened_at) * 1000)::bigint AS by_timestamp,
           sum((properties ->> 'time')::bigint) AS by_json
    FROM earthquakes`),
  [
    {
      reports: sum(features.map(({ properties }) => properties.felt ?? 0)),
      by_timestamp: sum(features.map(({ properties }) => properties.time)),
      by_json: sum(features.map(({ properties }) => properties.time)),
    },
  ],
);

heading('Every record again, as NDJSON');
const canonical = (time) => isoTime(Date.parse(time)); // "…:02.03Z" and "…:02.030Z" are the same time
async function* stored() {
  for await (const row of api.stream('SELECT * FROM earthquakes ORDER BY usgs_id COLLATE "C"')) {
    const { id: _, happened_at, updated, magnitude, ...same } = row;
    yield { ...same, time: canonical(happened_at), updated: canonical(updated), mag: magnitude };
  }
}
await checkEach(
  'read back',
  stored(),
  records.toSorted((a, b) => (a.usgs_id < b.usgs_id ? -1 : 1)),
);
