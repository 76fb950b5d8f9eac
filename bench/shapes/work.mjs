/** One shape as a work of the benchmark: what it sends, and the check that Postgres has stored it. */
import { gzipSync } from 'node:zlib';
import { COPY_DONE, bind, dataMessages, execute, SYNC } from '../../dist/pg/messages.js';
import { POSTGRES_TYPES, recordsOf } from '../records.mjs';
import { prepare } from '../wire.mjs';
import { copyOut } from './copy-out.mjs';

/** The number of different batches to send in turn; and if each can be sent only once. */
const BATCHES = 8;
const BATCHES_ONCE = 320;
/** Types that keep a value as it was sent: for documents, the text. */
const SENT_TYPES = { ...POSTGRES_TYPES, JSONB: 'json' };
/** Milliseconds between checks of what the service is doing in Postgres. */
const LOOK_MS = 50;

export class ShapeWork {
  /** The observed ways of rows into Postgres. @type {Set<string>} */
  ways = new Set();

  /** @param {import('./shapes.mjs').TableShape} shape */
  constructor(table, shape, connections) {
    const { count = 250, json = JSON.stringify, isOnce = false } = shape;
    Object.assign(this, { table, shape, connections, recordsPerBatch: count, unitsPerResponse: count });
    const batches = isOnce ? Math.ceil((BATCHES_ONCE * 250) / Math.max(count, 50)) : BATCHES;
    this.bodies = Array.from({ length: batches }, (_, i) => json(recordsOf(shape, i * count, count)));
    this.bytesPerRecord = this.bodies.reduce((sum, body) => sum + Buffer.byteLength(body), 0) / batches / count;
  }

  async prepare(target) {
    const { table, shape } = this;
    // The types that the shape creates are in this schema.
    await target.database.client.query(`SET search_path TO ${target.database.schema}`);
    const own = shape.columns.filter(({ type }) => type in POSTGRES_TYPES);
    await target.createTable(table, own);
    const others = shape.columns.filter((column) => !own.includes(column));
    const added = others.map(({ name, type }) => `ALTER TABLE ${table} ADD COLUMN ${name} ${type}`);
    for (const sql of [...(shape.before ?? []), ...added, ...(shape.after?.(table) ?? [])]) await target.execute(sql);
    await this.#expect(target.database);
    const requests = target.name === 'raw' ? await this.#copies(target) : this.#inserts(target);
    return { ...requests, ...(shape.isOnce && { atMost: this.bodies.length }) };
  }

  async reset({ name, database }) {
    if (name !== 'raw') await database.client.query('TRUNCATE _cdp.idempotency_keys');
    await database.reset(this.table);
    if (name === 'service') this.#watch(database);
  }

  /** What each batch holds, as Postgres itself reads its JSON; documents as they were sent. */
  async #expect({ client }) {
    const types = this.shape.columns.map(({ name, type }) => `${name} ${SENT_TYPES[type] ?? type}`).join(', ');
    await client.query(`DROP TABLE IF EXISTS bench_expected.${this.table}`);
    await client.query(`CREATE UNLOGGED TABLE bench_expected.${this.table} (batch integer, ${types})`);
    for (const [i, body] of this.bodies.entries()) {
      const records = `json_to_recordset($2::json) AS r (${types})`;
      await client.query(`INSERT INTO bench_expected.${this.table} SELECT $1::integer, r.* FROM ${records}`, [i, body]);
    }
    for (const sql of this.shape.expected?.(`bench_expected.${this.table}`) ?? []) await client.query(sql);
  }

  get #names() {
    return this.#columns((name) => name);
  }

  /** @param {(name: string) => string} document what to make of a column of documents */
  #columns(document) {
    return this.shape.columns.map(({ name, type }) => (type === 'JSONB' ? document(name) : name)).join(', ');
  }

  async #copies({ database }) {
    const requests = [];
    // As jsonb, Postgres would send the keys in its own order, and would not have to sort them when it reads them.
    const cells = this.#columns((name) => `convert_to(chr(1) || ${name}, 'UTF8')`);
    for (const batch of this.bodies.keys()) {
      const rows = `SELECT ${cells} FROM bench_expected.${this.table} WHERE batch = ${batch}`;
      const data = await copyOut(database.client, `COPY (${rows}) TO STDOUT (FORMAT binary)`);
      requests.push(Buffer.concat([bind([], [], 'bench'), execute(), ...dataMessages(data), COPY_DONE, SYNC]));
    }
    const into = `${database.table(this.table)} (${this.#names})`;
    return {
      prepare: prepare(`COPY ${into} FROM STDIN (FORMAT binary)`),
      tag: `COPY ${this.recordsPerBatch}`,
      requests,
    };
  }

  #inserts({ service }) {
    const { query = '', hasKeys = false, isZipped = false } = this.shape;
    const run = Math.random().toString(36).slice(2);
    const requests = this.bodies.map((body, i) =>
      service.request(`/data/${this.table}${query}`, isZipped ? gzipSync(body) : body, {
        headers: {
          ...(hasKeys && { 'Idempotency-Key': `${run}-${i}` }),
          ...(isZipped && { 'Content-Encoding': 'gzip' }),
        },
      }),
    );
    return { requests };
  }

  /** Runs until the measurement is over. */
  #watch(database) {
    const sql = `SELECT query FROM pg_stat_activity
      WHERE pid <> pg_backend_pid() AND datname = current_database() AND query ~ $1`;
    this.looking = Promise.resolve();
    const stop = () => clearInterval(this.timer); // the benchmark is being stopped
    this.timer = setInterval(() => {
      this.looking = database
        .rows(sql, [`^(COPY|INSERT INTO) [^ ]*"${this.table}"`])
        .then((rows) => rows.forEach(({ query }) => this.ways.add(wayOf(query))), stop);
    }, LOOK_MS);
  }

  /** Checks that the rows of every acknowledged batch are stored, as often as it was acknowledged, and no others. */
  async check(target, { acknowledged }) {
    clearInterval(this.timer);
    await this.looking;
    const row = this.#columns((name) => `${name}::jsonb`);
    const sums = (from) => `SELECT ${from.batch} AS batch, count(*)::text AS rows,
      sum(hashtextextended(ROW(${row})::text, 0))::text AS sum FROM ${from.table} GROUP BY 1 ORDER BY 1`;
    const expected = await target.database.rows(sums({ batch: 'batch', table: `bench_expected.${this.table}` }));
    const [found] = await target.database.rows(sums({ batch: '0', table: target.database.table(this.table) }));
    const total = (key) =>
      expected.reduce((sum, row) => sum + BigInt(row[key]) * BigInt(acknowledged[row.batch]), 0n).toString();
    const wrong = ['rows', 'sum'].find((key) => (found?.[key] ?? '0') !== total(key));
    if (wrong === undefined) return;
    throw new Error(`${target.name}.${this.table}: ${wrong} of all is ${found?.[wrong]} instead of ${total(wrong)}`);
  }
}

/** The way, by its statement. */
function wayOf(query) {
  if (query.startsWith('COPY'))
    return `COPY ${/FORMAT (\w+)/.exec(query)?.[1] ?? 'text'}${query.includes('DEFAULT') ? ' with defaults' : ''}`;
  return query.includes('unnest') || query.includes('generate_series') ? 'INSERT of arrays' : 'INSERT of a row';
}
