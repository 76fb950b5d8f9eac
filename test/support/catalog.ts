/** Runs the service's own catalog queries through the driver, in any session of a test. */
import type pg from 'pg';
import { readTables, type Table } from '../../src/engine/catalog/catalog.js';
import type { Statement } from '../../src/pg/sql-tag.js';

/** The one table that `statement` describes; undefined where there is none. */
export async function describedBy(client: pg.Client, { text, params }: Statement): Promise<Table | undefined> {
  const { rows } = await client.query<(string | null)[]>({
    text,
    values: [...params],
    rowMode: 'array',
    types: { getTypeParser: () => (value: string) => value },
  } as pg.QueryArrayConfig);
  return readTables('data', rows)[0];
}
