/**
 * Type changes that keep every value (contract C7), as SQL over one column. This file says which type may
 * become which; the rules are functions in migrations/project/002_conversions.sql.
 */
import type { ColumnType } from '../../contract/column-types.js';
import { type Fragment, literal, type Raw, sql, trusted } from '../../pg/index.js';

/** Neither part takes a parameter, raises an error, or can resolve to an operator or function of the project. */
export interface Conversion {
  /** Whether the value of a row can be kept. True for NULL; the expression itself is never NULL. */
  readonly convertible: Fragment;
  /** For `ALTER COLUMN … TYPE … USING`. A value that cannot be converted would become NULL. */
  readonly using: Fragment;
}

/** Whether every value of the type converts, or only some, so that the rows must be checked. */
type ConvertibleValues = 'every' | 'some';

/** The table of docs/api.md, "Alter a column", without its diagonal. A missing pair never converts. */
const CHANGES: Record<ColumnType, Partial<Record<ColumnType, ConvertibleValues>>> = {
  TEXT: { INTEGER: 'some', FLOAT: 'some', BOOLEAN: 'some', TIMESTAMP: 'some', JSONB: 'some' },
  INTEGER: { TEXT: 'every', FLOAT: 'some', BOOLEAN: 'some', JSONB: 'every' },
  FLOAT: { TEXT: 'every', INTEGER: 'some', JSONB: 'some' },
  BOOLEAN: { TEXT: 'every', INTEGER: 'every', FLOAT: 'every', JSONB: 'every' },
  TIMESTAMP: { TEXT: 'every', JSONB: 'every' },
  JSONB: { TEXT: 'every', INTEGER: 'some', FLOAT: 'some', BOOLEAN: 'some', TIMESTAMP: 'some' },
};

/**
 * The conversion of a column to another type.
 * @param from null: a type other than the six, from free SQL; it converts only to TEXT, in the form that responses show
 * @param column its quoted name in the table that is read or altered
 * @returns null if the types never convert
 */
export function conversion(from: ColumnType | null, to: ColumnType, column: Raw | Fragment): Conversion | null {
  if (from === to) return { convertible: sql`true`, using: sql`${column}` };
  if (from === null) {
    return to === 'TEXT' ? { convertible: sql`true`, using: sql`_cdp.other_to_text(${column})` } : null;
  }
  const reach = CHANGES[from][to];
  if (reach === undefined) return null;
  const using = sql`${trusted(`_cdp.${from}_to_${to}`.toLowerCase())}(${column})`;
  if (reach === 'every') return { convertible: sql`true`, using };
  // A JSON null becomes NULL in a type other than JSONB.
  const isNull = from === 'JSONB' ? sql`_cdp.is_any_null(${column})` : sql`${column} IS NULL`;
  return { convertible: sql`(${isNull} OR ${using} IS NOT NULL)`, using };
}

/** The text that responses show for the value. */
export function asText(from: ColumnType | null, column: Raw): Fragment {
  const change = conversion(from, 'TEXT', column);
  if (change === null) throw new Error(`${from} has no text`);
  return change.using;
}

/** Replacements for values before the conversion, by their text; null is NULL. */
export type ValueMap = Readonly<Record<string, string | null>>;

const asJsonb = (map: ValueMap): Fragment => sql`${literal(JSON.stringify(map))}::pg_catalog.jsonb`;

/** The conversion of a column after replacing values by the map; replacements convert as TEXT does. */
export function mapped(
  change: Conversion,
  from: ColumnType | null,
  to: ColumnType,
  column: Raw,
  map: ValueMap,
): Conversion {
  const text = asText(from, column);
  const isMapped = sql`${asJsonb(map)} OPERATOR(pg_catalog.?) ${text}`;
  const target = conversion('TEXT', to, sql`(${asJsonb(map)} OPERATOR(pg_catalog.->>) ${text})`);
  if (target === null) throw new Error(`TEXT cannot become ${to}`);
  return {
    convertible: sql`CASE WHEN ${isMapped} THEN ${target.convertible} ELSE ${change.convertible} END`,
    using: sql`CASE WHEN ${isMapped} THEN ${target.using} ELSE ${change.using} END`,
  };
}

/** The keys of a map whose replacements do not fit the type. */
export function unfitKeys(map: ValueMap, to: ColumnType): Fragment {
  const fits = conversion('TEXT', to, sql`m.value`)?.convertible ?? sql`false`;
  return sql`SELECT m.key FROM pg_catalog.jsonb_each_text(${asJsonb(map)}) AS m (key, value) WHERE NOT (${fits})`;
}
