/** Postgres itself: binary COPY, prepared statements, bytes built in advance. The limit of what is possible. */
import { createTable } from '../database.mjs';
import { Generator } from '../load/generator.mjs';
import { POSTGRES_TYPES } from '../records.mjs';
import { asText, copyBatch, prepare, runPrepared, runText } from '../wire.mjs';

/** Roles, and databases: the embedded server lets a role only into the database of its own name. */
export const RAW_ROLE = 'bench_raw';
export const UNPREPARED_ROLE = 'bench_unprepared';

export class RawWire {
  name = 'raw';
  generator = new Generator('raw.mjs');

  /** @param {object} login what the driver takes */
  constructor(login, database) {
    this.login = login;
    this.database = database;
  }

  /** There is no server other than Postgres. */
  get serverCpu() {
    return 0;
  }

  async createTable(name, columns) {
    await this.database.client.query(createTable(this.database.table(name), columns));
    await this.database.client.query(`ALTER TABLE ${this.database.table(name)} OWNER TO ${this.login.user}`);
  }

  /** More that belongs to a table. */
  async execute(sql) {
    await this.database.client.query(sql);
  }

  /** The order for the load generator that inserts the batches. */
  inserts(table, shape, batches) {
    const names = shape.columns.map(({ name }) => name).join(', ');
    const into = `${this.database.table(table)} (${names})`;
    const [{ length }] = batches;
    if (length > 1) {
      const requests = batches.map((records) => copyBatch(shape, records));
      return { prepare: prepare(`COPY ${into} FROM STDIN (FORMAT binary)`), tag: `COPY ${length}`, requests };
    }
    const places = shape.columns.map((_, i) => `$${i + 1}`).join(', ');
    const values = ([record]) => shape.columns.map(({ name, type }) => asText(type, record[name]));
    return this.statement(`INSERT INTO ${into} VALUES (${places})`, 'INSERT 0 1', batches.map(values));
  }

  /** One INSERT … ON CONFLICT of an array for each column. */
  upserts(table, { columns }, batches, key) {
    const names = columns.map(({ name }) => name);
    const arrays = columns.map(({ type }, i) => `$${i + 1}::${POSTGRES_TYPES[type]}[]`);
    const changes = names.filter((name) => name !== key).map((name) => `${name} = excluded.${name}`);
    const sql = `INSERT INTO ${this.database.table(table)} (${names.join(', ')}) SELECT * FROM unnest(${arrays.join(', ')})
      ON CONFLICT (${key}) DO UPDATE SET ${changes.join(', ')}`;
    const params = (records) =>
      columns.map(({ name, type }) => `{${records.map((record) => quoted(asText(type, record[name]))).join(',')}}`);
    return this.statement(sql, `INSERT 0 ${batches[0].length}`, batches.map(params));
  }

  selectOne() {
    return this.query('SELECT 1', [], 1);
  }

  selects(table, { columns }, rows) {
    const names = columns.map(({ name }) => name).join(', ');
    return this.query(`SELECT ${names} FROM ${this.database.table(table)}`, [], rows);
  }

  /** A query, its rows as text. */
  query(sql, params, rows) {
    return this.statement(sql, `SELECT ${rows}`, [params]);
  }

  /** A prepared statement. @param {string[][]} params of each request */
  statement(sql, tag, params) {
    return { prepare: prepare(sql), tag, requests: params.map((values) => runPrepared(values)) };
  }

  createsTables(names, columns) {
    const requests = names.map((name) => runText(createTable(this.database.table(name), columns)));
    return { prepare: Buffer.alloc(0), tag: 'CREATE TABLE', requests };
  }

  run(order) {
    return this.generator.run({ ...order, login: this.login });
  }
}

/** An element of an array literal. */
const quoted = (text) => `"${text.replace(/["\\]/g, '\\$&')}"`;

/** The same for requests that are not known in advance: each brings its SQL. COPY stays prepared. */
export class UnpreparedWire extends RawWire {
  name = 'unprepared';

  statement(sql, tag, params) {
    return { prepare: Buffer.alloc(0), tag, requests: params.map((values) => runText(sql, values)) };
  }
}
