/**
 * The benchmark's own access to a target's database, as superuser and not through the target: to set up and to check.
 */
import pg from 'pg';
import { POSTGRES_TYPES } from './records.mjs';

export class Database {
  /**
   * @param {object} superuser what the driver takes, without a database
   * @param {string} name
   * @param {string} schema where the target's tables are
   */
  static async open(superuser, name, schema) {
    const client = new pg.Client({ ...superuser, database: name });
    client.on('error', () => {}); // the next query fails as well
    await client.connect();
    await client.query('CREATE SCHEMA IF NOT EXISTS bench_expected');
    return new Database(client, name, schema);
  }

  constructor(client, name, schema) {
    this.client = client;
    this.name = name;
    this.schema = schema;
  }

  table(name) {
    return `${this.schema}.${name}`;
  }

  async rows(sql, params = []) {
    return (await this.client.query(sql, params)).rows;
  }

  /** Empties a table, and those that reference it, so that all targets start from the same state of the server. */
  async reset(table) {
    await this.client.query(`TRUNCATE ${this.table(table)} CASCADE`);
    await this.client.query('CHECKPOINT');
  }

  /**
   * Stores the contents of the batches, as Postgres itself reads their JSON: the reference for {@link check}.
   * @param {object[][]} batches
   */
  async expect(table, { columns }, batches) {
    const expected = `bench_expected.${table}`;
    const types = columns.map(({ name, type }) => `${name} ${POSTGRES_TYPES[type]}`).join(', ');
    await this.client.query(`DROP TABLE IF EXISTS ${expected}`);
    await this.client.query(`CREATE UNLOGGED TABLE ${expected} (batch integer, ${types})`);
    for (const [i, records] of batches.entries()) {
      const insert = `INSERT INTO ${expected} SELECT $1::integer, r.* FROM jsonb_to_recordset($2::jsonb) AS r (${types})`;
      await this.client.query(insert, [i, JSON.stringify(records)]);
    }
    await this.client.query(`ANALYZE ${expected}`);
  }

  /**
   * Checks that every acknowledged record is stored with the right value in every column, as often as it was
   * acknowledged, and that there are no other rows.
   * @param {number[]} acknowledged how often each batch was acknowledged
   * @param {number} others rows from before that are not expected
   * @throws Error with the difference
   */
  async check(table, { columns }, acknowledged, recordsPerBatch, others = 0) {
    const equal = columns.map(({ name }) => `t.${name} IS NOT DISTINCT FROM e.${name}`).join(' AND ');
    const found = await this.rows(
      `SELECT e.batch, count(*)::integer AS rows FROM ${this.table(table)} t
       JOIN bench_expected.${table} e ON t.n = e.n AND ${equal} GROUP BY e.batch`,
    );
    const right = new Array(acknowledged.length).fill(0);
    for (const { batch, rows } of found) right[batch] = rows;
    const wrong = acknowledged.findIndex((times, batch) => right[batch] !== times * recordsPerBatch);
    if (wrong >= 0) {
      const expected = acknowledged[wrong] * recordsPerBatch;
      throw new Error(`${this.name}.${table}: batch ${wrong} has ${right[wrong]} right rows instead of ${expected}`);
    }
    const [{ rows }] = await this.rows(`SELECT count(*)::integer AS rows FROM ${this.table(table)}`);
    const sum = acknowledged.reduce((a, b) => a + b, 0) * recordsPerBatch + others;
    if (rows !== sum) throw new Error(`${this.name}.${table}: ${rows} rows instead of ${sum}`);
  }

  async drop(table) {
    await this.client.query(`DROP TABLE ${this.table(table)} CASCADE`);
    await this.client.query(`DROP TABLE IF EXISTS bench_expected.${table}`);
  }

  async close() {
    await this.client.end();
  }
}

/** `CREATE TABLE` as the service writes it: an id that the server fills, then the columns. */
export function createTable(name, columns) {
  const list = columns.map((column) => `, ${column.name} ${POSTGRES_TYPES[column.type]}`);
  return `CREATE TABLE ${name} (id uuid PRIMARY KEY DEFAULT uuidv7()${list.join('')})`;
}
