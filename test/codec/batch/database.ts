/** A database on a real server, with one table to store batches in and to read them back. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { Table } from '../../../src/engine/catalog/catalog.js';
import { clearAway, dropDatabase } from '../../support/postgres.js';
import { encode } from './shapes.js';

export type Texts = Record<string, string | null>;

/** Every value of a result as Postgres's text. */
const AS_TEXT = { getTypeParser: () => (text: string) => text };

export class BatchDatabase {
  private constructor(
    private readonly name: string,
    private readonly admin: pg.Client,
    readonly client: pg.Client,
  ) {}

  static async open(connection: pg.ClientConfig): Promise<BatchDatabase> {
    const name = `batch_${randomBytes(6).toString('hex')}`;
    const admin = new pg.Client(connection);
    await admin.connect();
    await admin.query(`CREATE DATABASE ${name}`);
    const client = new pg.Client({ ...connection, database: name, types: AS_TEXT });
    await client.connect();
    await client.query('CREATE SCHEMA app');
    // A session as unhelpful as a project could leave it, were it able to.
    await client.query(`SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'; SET search_path = ''`);
    return new BatchDatabase(name, admin, client);
  }

  async close(): Promise<void> {
    await this.client.end();
    await clearAway(this.admin, dropDatabase(this.name));
    await this.admin.end();
  }

  /** Creates the table anew; an id has its default, those of other columns are given by name. */
  async create(shape: Table, defaults: Record<string, string> = {}): Promise<void> {
    const columns = shape.columns.map(({ name, displayType, sqlType, type, isId }) => {
      const fallback = isId ? 'pg_catalog.gen_random_uuid()' : defaults[name];
      return `"${name}" ${type === null ? displayType : sqlType}${fallback === undefined ? '' : ` DEFAULT ${fallback}`}`;
    });
    await this.client.query('DROP TABLE IF EXISTS app.customers');
    await this.client.query(
      `CREATE TABLE app.customers (n bigint GENERATED ALWAYS AS IDENTITY, ${columns.join(', ')})`,
    );
  }

  /** Inserts the body, reads the given expressions of every row in the order of insertion, and takes all back. */
  async store(body: string, shape: Table, select: string): Promise<Texts[]> {
    await this.client.query('BEGIN');
    try {
      for (const { statement } of encode(body, shape)) await this.client.query(statement.text, [...statement.params]);
      const { rows } = await this.client.query<Texts>(`SELECT ${select} FROM app.customers ORDER BY n`);
      return rows;
    } finally {
      await this.client.query('ROLLBACK');
    }
  }
}
