/**
 * 3,201 films, messy: titles that are numbers, dates as people write them, nulls everywhere.
 * Shows: ids of the inserted records, a type change that is refused and how SQL fixes it, a column added, CSV.
 *
 *   node examples/movies.mjs http://127.0.0.1:8080 TOKEN
 */
import { batches, connect, inFlight, refusal } from './api.mjs';
import { argumentsOf, check, checkEach, dataset, groupBy, heading, say, timed } from './report.mjs';

const api = connect(...argumentsOf());
const movies = dataset('movies.json');

heading('A table for the films; "US Gross" becomes us_gross');
const columnOf = (field) => field.toLowerCase().replaceAll(' ', '_');
const INTEGERS = ['us_gross', 'worldwide_gross', 'us_dvd_sales', 'production_budget', 'running_time_min'];
INTEGERS.push('rotten_tomatoes_rating', 'imdb_votes');
const typeOf = (name) => (INTEGERS.includes(name) ? 'INTEGER' : name === 'imdb_rating' ? 'FLOAT' : 'TEXT');
const names = Object.keys(movies[0]).map(columnOf);
await api.dropTable('movies');
const created = await api.createTable({
  table_name: 'movies',
  comment: 'Films with their takings and ratings',
  columns: names.map((name) => ({ name, type: typeOf(name) })),
});
say(`${created.message}: ${created.columns.join(', ')}`);

heading('The records as they are; a title that is a number becomes its text');
const records = movies.map((movie) => Object.fromEntries(Object.entries(movie).map(([k, v]) => [columnOf(k), v])));
const ids = [];
await timed('records', records.length, () =>
  inFlight(4, batches(records), async (part, i) => {
    const response = await api.insert('movies', part, { query: '?return=ids' });
    response.ids.forEach((id, k) => (ids[i * 250 + k] = id));
  }),
);
check(
  'films; different titles; no title',
  await api.rows(`
    SELECT count(*) AS films, count(DISTINCT title) AS titles, count(*) - count(title) AS untitled FROM movies`),
  [
    {
      films: movies.length,
      titles: new Set(movies.flatMap(({ Title }) => Title ?? [])).size,
      untitled: movies.filter(({ Title }) => Title === null).length,
    },
  ],
);
check(
  'titles that the file has as numbers',
  (await api.rows(`SELECT title FROM movies WHERE title ~ '^[0-9]+$' ORDER BY title COLLATE "C"`)).map((r) => r.title),
  movies.flatMap(({ Title }) => (typeof Title === 'number' ? String(Title) : [])).sort(),
);

heading('"Jun 12 1998" is no timestamp: the type change is refused and changes nothing');
const change = { new_name: 'released_at', new_type: 'TIMESTAMP', comment: 'First shown in the USA' };
const refused = await refusal(api.alterColumn('movies', 'release_date', change));
say(`${refused.status} ${refused.error}: ${refused.message}`);
check('why', refused.error, 'not_convertible');
const culprits = refused.message.match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g);
check(
  'the rows that the refusal names',
  await api.rows('SELECT id, release_date FROM movies WHERE id = ANY ($1::uuid[]) ORDER BY id', [culprits]),
  culprits.toSorted().map((id) => ({ id, release_date: movies[ids.indexOf(id)]['Release Date'] })),
);

heading('Mended by SQL, it goes through');
const { type, row_count } = await api.sql(`
  UPDATE movies SET release_date = to_char(to_date(release_date, 'Mon DD YYYY'), 'YYYY-MM-DD')`);
check('rows mended', { type, row_count }, { type: 'UPDATE', row_count: movies.length });
const { column } = await api.alterColumn('movies', 'release_date', change);
check('the column now', column, { name: 'released_at', type: 'TIMESTAMP', comment: 'First shown in the USA' });

heading('A column more, filled by SQL');
const added = await api.addColumn('movies', { name: 'profit', type: 'INTEGER', comment: 'Takings less budget' });
say(`${added.message}: ${added.column.name} ${added.column.type}`);
await api.sql('UPDATE movies SET profit = worldwide_gross - production_budget');

heading('Questions');
const sum = (list, field) => list.reduce((total, movie) => total + (movie[field] ?? 0), 0);
const both = movies.filter((movie) => movie['Worldwide Gross'] !== null && movie['Production Budget'] !== null);
check(
  'takings and profit of all films, to the dollar',
  await api.rows('SELECT sum(worldwide_gross) AS takings, sum(profit) AS profit FROM movies'),
  [
    {
      takings: sum(movies, 'Worldwide Gross'),
      profit: sum(both, 'Worldwide Gross') - sum(both, 'Production Budget'),
    },
  ],
);

const nullsOf = (name) => `count(*) - count(${name}) AS ${name}`;
const [nulls] = await api.rows(
  `SELECT ${names.map((name) => nullsOf(name.replace('release_date', 'released_at')))} FROM movies`,
);
const fields = Object.keys(movies[0]);
check(
  'nulls in each column of the file',
  Object.values(nulls),
  fields.map((field) => movies.filter((movie) => movie[field] === null).length),
);

check(
  'the distributors that earned most',
  await api.rows(`
    SELECT distributor, count(*) AS films, sum(worldwide_gross) AS takings
    FROM movies WHERE distributor IS NOT NULL GROUP BY distributor ORDER BY takings DESC LIMIT 5`),
  [...groupBy(movies, ({ Distributor }) => Distributor)]
    .filter(([distributor]) => distributor !== null)
    .map(([distributor, group]) => ({ distributor, films: group.length, takings: sum(group, 'Worldwide Gross') }))
    .sort((a, b) => b.takings - a.takings)
    .slice(0, 5),
);

check(
  'the genres by mean rating, each vote counted',
  await api.rows(`
    SELECT major_genre, round(sum(imdb_rating::numeric * imdb_votes) / sum(imdb_votes), 3) AS rating
    FROM movies WHERE major_genre IS NOT NULL AND imdb_votes IS NOT NULL
    GROUP BY major_genre ORDER BY rating DESC LIMIT 5`),
  [...groupBy(movies, (movie) => movie['Major Genre'])]
    .filter(([genre]) => genre !== null)
    .map(([major_genre, group]) => {
      const tenths = group.reduce((total, m) => total + Math.round(m['IMDB Rating'] * 10) * m['IMDB Votes'], 0);
      return { major_genre, rating: Math.round((tenths * 100) / sum(group, 'IMDB Votes')) / 1000 };
    })
    .sort((a, b) => b.rating - a.rating)
    .slice(0, 5),
);

const yearOf = (movie) => Number(movie['Release Date'].slice(-4));
check(
  'films by the year they came out, which in the file is sometimes a century late',
  await api.rows(`
    SELECT extract(year FROM released_at AT TIME ZONE 'UTC')::int AS year, count(*) AS films
    FROM movies GROUP BY year ORDER BY year DESC`),
  [...groupBy(movies, yearOf)].map(([year, group]) => ({ year, films: group.length })).sort((a, b) => b.year - a.year),
);

heading('Every record again, as CSV: an empty field is NULL, "" is the empty string');
const [header, ...lines] = csvRecords(await api.csv('SELECT * FROM movies ORDER BY id'));
const stored = lines.map((line) => Object.fromEntries(line.map((value, i) => [header[i], value])));
const textOf = (value) => (value === null ? null : String(value));
const source = records.map(({ release_date, ...record }, i) => ({
  ...Object.fromEntries(Object.entries(record).map(([name, value]) => [name, textOf(value)])),
  id: ids[i],
  released_at: new Date(`${release_date} UTC`).toISOString().replace('.000', ''),
  profit:
    record.worldwide_gross === null || record.production_budget === null
      ? null
      : String(record.worldwide_gross - record.production_budget),
}));
await checkEach(
  'read back',
  stored,
  source.sort((a, b) => (a.id < b.id ? -1 : 1)),
);

/** RFC 4180, with NULL and "" distinct as in Postgres's COPY. @returns a list of values for each line */
function csvRecords(text) {
  const records = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n)/g)) {
    records.at(-1).push(quoted === undefined ? plain || null : quoted.replaceAll('""', '"'));
    if (end === '\n') records.push([]);
  }
  return records.slice(0, -1);
}
