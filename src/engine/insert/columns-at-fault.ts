/** Finds the columns at fault in a refused record: in the catalog, or by trying its values one by one. */
import type { Row } from '../../codec/index.js';
import { fixed, ident, literal, PostgresError, type Session, sql, SQLSTATE, trusted } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { NO_RECORDS_FAULT, recordErrorCode, type RefusedRecord } from './record-error.js';

type Fault = Omit<RefusedRecord, 'record'>;

/** Columns of constraints and unique indexes, by their names. */
export type KnownConstraints = Map<string, string[]>;

/**
 * The columns at fault that Postgres does not name: those of a constraint or unique index, and those whose types do
 * not accept their values.
 */
export async function columnsAtFault(
  session: Session,
  table: Table,
  row: Row,
  error: PostgresError,
  known: KnownConstraints,
): Promise<Fault[]> {
  const { column, constraint, schema, table: relation } = error.fields;
  if (column !== undefined) return [];
  // A trigger may have written to another table. Distributed tables have no triggers, and errors of workers do not name
  // the table.
  const isOfTable = error.isOfWorker || (schema === table.schema && relation === table.name);
  if (constraint !== undefined && isOfTable) {
    const find = error.sqlstate === SQLSTATE.UNIQUE_VIOLATION ? columnsOfIndex : columnsOfConstraint;
    const columns = known.get(constraint) ?? (await session.query(find(table, constraint))).map(([name]) => name ?? '');
    known.set(constraint, columns);
    if (columns.length < 2) return columns.map((only) => ({ column: only, error }));
    return [{ columns, error }];
  }
  // Otherwise only an error of a type, or of a domain's constraint, which belongs to no table, is about a value.
  if (!/^2[23]/.test(error.sqlstate) || relation !== undefined) return [];
  const faults: Fault[] = [];
  for (const [i, { name, type, displayType, isJson }] of table.columns.entries()) {
    const cell = row[i];
    // Values of the six types have already been checked.
    if (type !== null || cell == null) continue;
    const read = isJson ? castTo(displayType, cell) : readAs(displayType, cell);
    const { error: fault } = await session.pipeline([fixed('SAVEPOINT _cdp_value'), read]);
    await session.run([fixed('ROLLBACK TO SAVEPOINT _cdp_value')]);
    if (!(fault instanceof PostgresError)) continue;
    if (NO_RECORDS_FAULT.has(recordErrorCode(fault))) throw fault;
    faults.push({ column: name, error: fault });
  }
  return faults;
}

const castTo = (type: string, cell: string) => sql`SELECT CAST(CAST(${cell} AS pg_catalog.text) AS ${trusted(type)})`;

/** Reads the text as an assignment does: a cast would truncate it for varchar(3). */
const readAs = (type: string, cell: string) =>
  sql`SELECT cell FROM pg_catalog.json_to_record(pg_catalog.json_build_object('cell', CAST(${cell} AS pg_catalog.text)))
    AS record (cell ${trusted(type)})`;

const regclass = ({ schema, name }: Table) =>
  sql`${literal(ident(schema, name).text)}::pg_catalog.regclass::pg_catalog.oid`;

/** No columns for an index on expressions. */
const columnsOfIndex = (table: Table, index: string) =>
  sql`SELECT a.attname FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    CROSS JOIN LATERAL pg_catalog.generate_series(0, i.indnkeyatts - 1) AS place
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[place]
    WHERE i.indrelid = ${regclass(table)} AND c.relname = ${index} AND i.indexprs IS NULL ORDER BY place`;

const columnsOfConstraint = (table: Table, constraint: string) =>
  sql`SELECT a.attname FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
    WHERE k.conrelid = ${regclass(table)} AND k.conname = ${constraint}
    ORDER BY pg_catalog.array_position(k.conkey, a.attnum)`;
