/** PostgREST, used as its manual documents for the same work. It cannot create tables or stream rows. */
import { createTable } from '../database.mjs';
import { cpuOf } from '../cpu.mjs';

export class PostgRestTarget {
  name = 'postgrest';

  /** @param {import('../load/generator.mjs').Generator} generator */
  constructor(postgrest, database, generator) {
    this.postgrest = postgrest;
    this.database = database;
    this.generator = generator;
  }

  get serverCpu() {
    return cpuOf(this.postgrest.pid);
  }

  async createTable(name, columns) {
    await this.database.client.query(createTable(this.database.table(name), columns));
    await this.database.client.query(`NOTIFY pgrst, 'reload schema'`);
    await this.postgrest.knows(name);
  }

  inserts(table, { columns }, batches) {
    return { requests: batches.map((records) => this.postgrest.insert(table, columns, records)) };
  }

  upserts(table, { columns }, batches, key) {
    return { requests: batches.map((records) => this.postgrest.upsert(table, columns, key, records)) };
  }

  /** PostgREST takes no SQL; a function is the nearest. */
  selectOne() {
    return { requests: [this.postgrest.request('/rpc/one')], keepBody: true };
  }

  selects(table, { columns }) {
    const names = columns.map(({ name }) => name).join(',');
    return { requests: [this.postgrest.request(`/${table}?select=${names}`)], keepBody: true };
  }

  oneOf(body) {
    return JSON.parse(body);
  }

  rowsOf(body) {
    return JSON.parse(body);
  }

  run(order) {
    return this.generator.run({ ...order, port: this.postgrest.port });
  }
}
