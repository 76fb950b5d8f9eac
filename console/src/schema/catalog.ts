/** The project's tables and columns. They are read once, and again after anything that may have changed them. */
import { computed, effect, signal } from '@preact/signals';
import { CdpError, type Table } from '../../../src/client/index.js';
import { currentSession, hasScope, session } from '../session.js';

/** null: not read yet, or not allowed for the token. */
export const tables = signal<readonly Table[] | null>(null);
export const catalogError = signal('');

export const tableByName = computed(() => new Map(tables.value?.map((table) => [table.name, table])));

let reading: Promise<void> | undefined;

/** @param isAgain reads the catalog even if it has been read */
export function readCatalog(isAgain = false): Promise<void> {
  if (!hasScope('schema:read')) return Promise.resolve();
  if (!isAgain && (reading !== undefined || tables.value !== null)) return reading ?? Promise.resolve();
  const mine = read().finally(() => {
    if (reading === mine) reading = undefined;
  });
  reading = mine;
  return mine;
}

async function read(): Promise<void> {
  const { client } = currentSession();
  try {
    withoutColumns.clear();
    const all = await client.tables().catch((error: unknown) => {
      if (error instanceof CdpError && error.code === 'result_too_large' && hasScope('sql:read')) return readNames();
      throw error;
    });
    tables.value = all.sort((a, b) => (a.name < b.name ? -1 : 1));
    catalogError.value = '';
  } catch (error) {
    catalogError.value = error instanceof CdpError ? error.message : String(error);
  }
}

/** Tables whose columns have not been read, because there are too many for one response. */
const withoutColumns = new Set<string>();

const KINDS = { r: 'table', p: 'table', v: 'view', m: 'materialized_view', f: 'foreign_table' } as const;

const NAMES = `SELECT relname, relkind, obj_description(oid, 'pg_class'),
    CASE WHEN relkind IN ('v', 'f') THEN NULL ELSE greatest(reltuples, 0)::int8 END
  FROM pg_class WHERE relnamespace = 'data'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')`;

/** All tables without their columns, which {@link readColumns} reads for one table at a time. */
async function readNames(): Promise<Table[]> {
  type Row = [name: string, kind: keyof typeof KINDS, comment: string | null, rows: number | null];
  const options = { read_only: hasScope('sql:read'), row_mode: 'array', max_rows: 100_000 } as const;
  const { rows } = await currentSession().client.query<Row>(NAMES, [], options);
  return rows.map(([name, kind, comment, approximate_rows]) => {
    withoutColumns.add(name);
    return { name, kind: KINDS[kind], comment, approximate_rows, columns: [] };
  });
}

/** Reads the columns of a table if they have not been read with all others. */
export async function readColumns(name: string): Promise<void> {
  if (!withoutColumns.delete(name)) return;
  try {
    const read = await currentSession().client.describe(name);
    tables.value = tables.value?.map((table) => (table.name === name ? read : table)) ?? null;
  } catch (error) {
    catalogError.value = error instanceof CdpError ? error.message : String(error);
  }
}

// Another token may belong to another project.
effect(() => {
  if (session.value !== null) return;
  tables.value = null;
  catalogError.value = '';
});
