/** Twenty-five lines of Node: how fast a server is without the features of the service. */
import { createTable } from '../database.mjs';
import { cpuOf } from '../cpu.mjs';
import { httpRequest } from '../http.mjs';
import { NAIVE_ROLE } from '../servers/naive.mjs';

export class NaiveTarget {
  name = 'naive';

  /**
   * @param {import('../servers/naive.mjs').Naive} server
   * @param {import('../load/generator.mjs').Generator} generator
   */
  constructor(server, database, generator) {
    this.server = server;
    this.database = database;
    this.generator = generator;
  }

  get serverCpu() {
    return cpuOf(this.server.pid);
  }

  async createTable(name, columns) {
    await this.database.client.query(createTable(this.database.table(name), columns));
    await this.database.client.query(`ALTER TABLE ${this.database.table(name)} OWNER TO ${NAIVE_ROLE}`);
  }

  inserts(table, { columns }, batches) {
    const path = `/${table}?columns=${columns.map(({ name }) => name).join(',')}`;
    return { requests: batches.map((body) => httpRequest({ path, body })) };
  }

  selectOne() {
    return this.#sql('SELECT 1');
  }

  selects(table, { columns }) {
    return this.#sql(`SELECT ${columns.map(({ name }) => name).join(', ')} FROM ${table}`);
  }

  createsTables(names, columns) {
    return { requests: names.flatMap((name) => this.#sql(createTable(name, columns)).requests) };
  }

  #sql(sql) {
    return { requests: [httpRequest({ path: '/sql', body: { sql } })], keepBody: true };
  }

  oneOf(body) {
    return JSON.parse(body)[0]['?column?'];
  }

  rowsOf(body) {
    return JSON.parse(body);
  }

  run(order) {
    return this.generator.run({ ...order, port: this.server.port });
  }
}
