/** Changes the type of a column: every value is kept, or nothing is changed (contract C7). */
import type { QueryRunner } from '../../db/query-runner.js';
import type { ColumnType } from '../../contract/column-types.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError, type ValueCount } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { counted, quoted } from '../../contract/message-text.js';
import { type Column, POSTGRES_TYPES, type Table, viewsOnColumn } from '../catalog/catalog.js';
import { asText, conversion, mapped, unfitKeys, type ValueMap } from '../catalog/conversions.js';
import {
  fixed,
  type Fragment,
  ident,
  PostgresError,
  type Raw,
  sql,
  SQLSTATE,
  type Statement,
  trusted,
} from '../../pg/index.js';
import { fromPostgres } from '../../tenancy/postgres-errors.js';

/**
 * Maximum number of values listed in an error, their length in characters, and how many values are examined to find the
 * most frequent ones.
 */
const LISTED_VALUES = 10;
const VALUE_CHARACTERS = 100;
const VALUES_LOOKED_AT = 100_000;

interface Retyping {
  to: ColumnType;
  /** Replacements that are made before the conversion. */
  map: ValueMap | undefined;
  /** Whether an error lists values. */
  showValues: boolean;
}

/**
 * Checks that every value survives the change of type. @returns the statement that makes it
 * @throws EngineError not_convertible, invalid_value, dependent_objects
 */
export async function retype(
  db: QueryRunner,
  table: Table,
  column: Column,
  { to, map, showValues }: Retyping,
): Promise<Statement> {
  const { schema, name } = table;
  const views = await db.query(viewsOnColumn(schema, name, column.name));
  if (views.length > 0) {
    const names = views.map(([view]) => `"${view}"`).join(', ');
    throw new EngineError(
      'dependent_objects',
      `The type of "${column.name}" cannot be changed while views depend on it: ${names}`,
    );
  }
  if (map !== undefined) await requireFit(db, map, to);
  const reference = ident(column.name);
  const plain = conversion(column.type, to, reference);
  const change = plain === null || map === undefined ? plain : mapped(plain, column.type, to, reference, map);
  const relation = ident(schema, name);
  // The change itself ignores row level security, so the check of the values must, too.
  await db.run([fixed('SET LOCAL row_security = off')]);
  const isLost = change === null ? sql`${reference} IS NOT NULL` : sql`NOT (${change.convertible})`;
  const countRows = await db.query(sql`SELECT pg_catalog.count(*) FROM ${relation} WHERE ${isLost}`);
  const count = Number(countRows[0]?.[0] ?? 0);
  if (change === null || count > 0) {
    const ids = table.columns.some((candidate) => candidate.name === 'id')
      ? await db.query(sql`SELECT id::pg_catalog.text FROM ${relation} WHERE ${isLost}
          ORDER BY id::pg_catalog.text COLLATE pg_catalog."C" LIMIT ${LIMITS.lostIdsListed}::pg_catalog.int8`)
      : [];
    const values = showValues
      ? await db.query(mostFrequent(relation, asText(column.type, reference), isLost))
      : undefined;
    throw notConvertible(column, to, change === null, count, {
      ids: ids.map(([id]) => id ?? ''),
      values: values?.map(([value, rows]) => ({ value: value ?? '', rows: Number(rows) })),
    });
  }
  return sql`ALTER TABLE ${relation} ALTER COLUMN ${reference} TYPE ${trusted(POSTGRES_TYPES[to])} USING ${change.using}`;
}

/** @throws EngineError invalid_value, naming every value of the map that is not one of the type */
async function requireFit(db: QueryRunner, map: ValueMap, to: ColumnType): Promise<void> {
  const errors = new ErrorCollector();
  for (const [key] of await db.query(unfitKeys(map, to))) {
    const value = map[key ?? ''] ?? '';
    errors.add('invalid_value', () => ({
      message: `map: ${quoted(key ?? '')} cannot become ${quoted(value)}, which is not a value of ${to}`,
    }));
  }
  errors.throwIfAny();
}

/** Long values are cut, and count as one if they begin alike. */
const mostFrequent = (relation: Raw, text: Fragment, isLost: Fragment): Statement => sql`
  SELECT d.value, pg_catalog.count(*)
  FROM (
    SELECT pg_catalog.concat(pg_catalog.left(t.value, ${VALUE_CHARACTERS}::pg_catalog.int4),
      CASE WHEN pg_catalog.length(t.value) > ${VALUE_CHARACTERS}::pg_catalog.int4 THEN '…' END) AS value
    FROM (SELECT ${text} AS value FROM ${relation} WHERE ${isLost} LIMIT ${VALUES_LOOKED_AT}::pg_catalog.int8) t
  ) d
  GROUP BY d.value ORDER BY 2 DESC, d.value COLLATE pg_catalog."C" LIMIT ${LISTED_VALUES}::pg_catalog.int8`;

function notConvertible(
  column: Column,
  to: ColumnType,
  never: boolean,
  count: number,
  { ids, values: frequentValues }: { ids: string[]; values: ValueCount[] | undefined },
): EngineError {
  const values = `${counted(count, 'value')} of "${column.name}" (${column.displayType})`;
  const rows =
    ids.length === 0 ? '' : `; ${count > ids.length ? 'some of their rows' : 'their rows'}: ${ids.join(', ')}`;
  const more = { unconvertible: { rows: count, ids }, values: frequentValues };
  if (!never) {
    const hint = 'Change those values with SQL (UPDATE … WHERE id = …), then retry; or send what they become in "map".';
    return new EngineError('not_convertible', `${values} cannot be kept as ${to}${rows}`, { hint, ...more });
  }
  const hint =
    column.type === null
      ? 'Change it to TEXT first.'
      : 'Add a column of the new type and fill it with SQL, which lets you decide how to convert each value.';
  const lossText = count === 0 ? '' : `: ${values} would be lost${rows}`;
  const message = `${column.displayType} cannot be converted to ${to}${lossText}`;
  return new EngineError('not_convertible', message, { hint, ...more });
}

/** Explains refusals of a type change by Postgres that the checks above do not foresee. */
export function explainRetypeRefusal(error: unknown, column: string): unknown {
  if (!(error instanceof PostgresError)) return error;
  const translated = fromPostgres(error);
  if (!(translated instanceof EngineError)) return error;
  if (translated.code === 'citus_limit') return error;
  const options = { cause: error, postgres: translated.postgres };
  switch (error.sqlstate) {
    case SQLSTATE.FEATURE_NOT_SUPPORTED: // a generated column, policy, trigger or rule uses it
      return new EngineError('dependent_objects', `"${column}": ${error.message}`, options);
    case SQLSTATE.UNDEFINED_FUNCTION: // a check or an index uses an operator that the new type does not have
    case SQLSTATE.CANNOT_COERCE:
      return new EngineError('not_convertible', `"${column}": ${error.message}`, options);
    case SQLSTATE.DATATYPE_MISMATCH:
      return new EngineError('not_convertible', `"${column}": ${error.message}`, {
        ...options,
        hint: 'Send "default" with it: a value of the new type, or null for none.',
      });
    default:
      return error;
  }
}
