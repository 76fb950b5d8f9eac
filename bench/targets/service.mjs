/** The project, used as its API documents, with the token of an ordinary project. */
export class ServiceTarget {
  name = 'service';

  /** @param {import('../load/generator.mjs').Generator} generator */
  constructor(service, database, generator) {
    this.service = service;
    this.database = database;
    this.generator = generator;
  }

  get serverCpu() {
    return this.service.cpu;
  }

  async createTable(name, columns) {
    await this.service.createTable(name, columns);
  }

  /** More that belongs to a table. */
  async execute(sql) {
    await this.service.call('/sql', { sql });
  }

  inserts(table, _shape, batches) {
    return { requests: batches.map((records) => this.service.request(`/data/${table}`, records)) };
  }

  upserts(table, _shape, batches, key) {
    const path = `/data/${table}?on_conflict=${key}`;
    return { requests: batches.map((records) => this.service.request(path, records)) };
  }

  selectOne() {
    return { requests: [this.service.request('/sql', { sql: 'SELECT 1' })], keepBody: true };
  }

  selects(table, { columns }) {
    return { requests: [this.service.request('/sql', { sql: selectSql(table, columns) })], keepBody: true };
  }

  streams(table, { columns }) {
    const headers = { Accept: 'application/x-ndjson' };
    return { requests: [this.service.request('/sql', { sql: selectSql(table, columns) }, { headers })] };
  }

  createsTables(names, columns) {
    return { requests: names.map((name) => this.service.request('/schema/table', { table_name: name, columns })) };
  }

  /** The value in a response to {@link selectOne}. */
  oneOf(body) {
    return JSON.parse(body).rows[0]['?column?'];
  }

  /** The rows of a response to {@link selects}. */
  rowsOf(body) {
    return JSON.parse(body).rows;
  }

  run(order) {
    return this.generator.run({ ...order, port: this.service.port });
  }
}

const selectSql = (table, columns) => `SELECT ${columns.map(({ name }) => name).join(', ')} FROM ${table}`;
