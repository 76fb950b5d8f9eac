/**
 * Finds people: from the identifiers of a request, over all declared columns, until nothing new is found. Values are normalised
 * and compared in Postgres, so that one rule holds everywhere.
 */
import { EngineError } from '../../contract/errors.js';
import { counted, quoted } from '../../contract/message-text.js';
import type { Normalization } from '../../contract/subjects.js';
import type { Joined } from '../../contract/wire/subjects.js';
import { type Fragment, ident, join, sql } from '../../pg/index.js';
import {
  hasOperator,
  type Runner,
  type SubjectColumn,
  type Subjects,
  type SubjectTable,
  tableName,
} from './subject-tables.js';

/** Values by identifier, normalised. */
export type Values = ReadonlyMap<string, ReadonlySet<string>>;

export interface Found {
  readonly values: Values;
  /** By shown name of the table; tables without rows, too. */
  readonly rows: ReadonlyMap<string, number>;
  readonly joined: Joined;
}

export interface Bounds {
  /** Rows of a table, and values altogether. */
  readonly maxRows: number;
  /** How many subjects were named. */
  readonly subjects: number;
  /** Whether more subjects may be found than were named. */
  readonly joined: boolean;
  /** Default: yes. */
  readonly followsLinks?: boolean;
}

export const DEFAULT_MAX_ROWS = 10_000;

/** Links from one value to the next. A longer chain is a mistake in the declaration. */
const MOST_ROUNDS = 50;

const EQUALS = sql`OPERATOR(pg_catalog.=)`;

const asText = ({ name }: Pick<SubjectColumn, 'name'>): Fragment => sql`${ident(name)}::pg_catalog.text`;

const normalize = (text: Fragment, normalization: Normalization): Fragment =>
  normalization === 'exact-1' ? text : sql`_cdp.caseless_1(${text})`;

/** The value of a column as it is compared. */
export const normalizedColumn = (column: SubjectColumn): Fragment => normalize(asText(column), column.normalization);

/** Whether an int8 has this text. */
function isInteger(text: string): boolean {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(text)) return false;
  const value = BigInt(text);
  return value >= -(2n ** 63n) && value < 2n ** 63n;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A condition: the column has one of the values. Without a cast of the column where an index can serve that. */
function hasOneOf(column: SubjectColumn, values: Iterable<string>): Fragment {
  const { type, name, normalization } = column;
  const all = [...values];
  if (normalization !== 'exact-1' || !hasOperator(type))
    return sql`${normalizedColumn(column)} ${EQUALS} ANY (${all}::pg_catalog.text[])`;
  const plain = ident(name);
  if (/int|integer/.test(type)) return sql`${plain} ${EQUALS} ANY (${all.filter(isInteger)}::pg_catalog.int8[])`;
  if (type === 'uuid') return sql`${plain} ${EQUALS} ANY (${all.filter((text) => UUID.test(text))}::pg_catalog.uuid[])`;
  return sql`${plain} ${EQUALS} ANY (${all}::pg_catalog.text[])`;
}

/** A condition on the rows of a table, with the values of some identifiers; null: it has no column for them. */
export function belongsTo({ columns }: SubjectTable, values: Values): Fragment | null {
  const conditions = columns.flatMap((column) => {
    const ofColumn = values.get(column.identifier);
    return ofColumn === undefined || ofColumn.size === 0 ? [] : [hasOneOf(column, ofColumn)];
  });
  return conditions.length === 0 ? null : sql`(${join(conditions, ' OR ')})`;
}

/**
 * Normalises the identifiers of a request.
 * @throws EngineError invalid_value, naming the identifier
 */
export async function normalizeAsked(
  db: Runner,
  { kind, normalizations }: Subjects,
  asked: Readonly<Record<string, readonly string[]>>,
): Promise<Values> {
  const values = new Map<string, Set<string>>();
  for (const [identifier, texts] of Object.entries(asked)) {
    const normalization = normalizations.get(identifier);
    if (normalization === undefined) {
      throw new EngineError('invalid_request', `${quoted(kind)} has no identifier ${quoted(identifier)}`, {
        hint: `The identifiers are ${[...normalizations.keys()].join(', ')}.`,
      });
    }
    const rows = await db.query(
      sql`SELECT DISTINCT ${normalize(sql`given`, normalization)} FROM pg_catalog.unnest(${texts}::pg_catalog.text[]) AS given`,
    );
    const normalized = rows.map(([value]) => value ?? '');
    if (normalized.some((value) => value === ''))
      throw new EngineError('invalid_value', `The identifier ${quoted(identifier)} is empty, which would be everybody`);
    values.set(identifier, new Set(normalized));
  }
  return values;
}

/**
 * Follows the links.
 * @throws EngineError invalid_request if more rows match than the caller allows, or more subjects than were named
 */
export async function findSubject(db: Runner, subjects: Subjects, asked: Values, bounds: Bounds): Promise<Found> {
  const { maxRows } = bounds;
  const values = new Map<string, Set<string>>();
  let added: ReadonlyMap<string, ReadonlySet<string>> = asked;
  for (let round = 0; added.size > 0; round++) {
    if (round === MOST_ROUNDS)
      throw new EngineError('invalid_request', `The links between identifiers go on after ${MOST_ROUNDS} steps`, {
        hint: 'Leave out of the declaration a column that many people share.',
      });
    for (const [identifier, some] of added)
      values.set(identifier, new Set([...(values.get(identifier) ?? []), ...some]));
    added = bounds.followsLinks === false ? new Map() : await follow(db, subjects, added, values, maxRows);
    const total = sum([...values.values(), ...added.values()].map(({ size }) => size));
    if (total > maxRows) throw tooMany(`${total} identifiers are linked with each other`, maxRows);
  }
  const rows = await countRows(db, subjects, values, maxRows);
  const joined = subjects.tables.flatMap(({ shown, onePerSubject }) => {
    const count = rows.get(shown) ?? 0;
    return onePerSubject && count > bounds.subjects ? [{ table: shown, subjects: count }] : [];
  });
  return { values, rows, joined };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** @throws EngineError invalid_request */
export function requireNotJoined({ joined }: Found, bounds: Bounds): void {
  const [first] = joined;
  if (first === undefined || bounds.joined) return;
  throw new EngineError(
    'invalid_request',
    `The identifiers lead to ${first.subjects} rows of ${quoted(first.table)}, which has one for each subject, and ${counted(bounds.subjects, 'subject was', 'subjects were')} named`,
    { hint: 'Look at them with find. To go on with all of them, send "joined": true.' },
  );
}

const tooMany = (what: string, maxRows: number): EngineError =>
  new EngineError('invalid_request', `${what}, and the request allows ${maxRows}`, {
    hint: 'Perhaps many people share the identifier. To go on with all of them, send a greater "max_rows".',
  });

/** @returns the values that are new, by identifier */
async function follow(
  db: Runner,
  { tables }: Subjects,
  added: Values,
  known: Values,
  maxRows: number,
): Promise<Map<string, Set<string>>> {
  // In a table with one identifier there is nothing to follow.
  const linking = tables.filter(({ columns }) => new Set(columns.map(({ identifier }) => identifier)).size > 1);
  const looked = linking.flatMap((table) => {
    const condition = belongsTo(table, added);
    return condition === null ? [] : [{ table, condition }];
  });
  const results = await db.run(
    looked.map(({ table, condition }) => {
      const shown = table.columns.map((column, i) => sql`${normalizedColumn(column)} AS ${ident(`c${i}`)}`);
      const all = join(table.columns.map((_, i) => ident(`c${i}`)));
      return sql`SELECT ${all}, pg_catalog.count(*) FROM (SELECT ${join(shown)} FROM ${tableName(table)}
        WHERE ${condition} LIMIT ${maxRows + 1}) AS found GROUP BY ${all}`;
    }),
  );
  const found = new Map<string, Set<string>>();
  looked.forEach(({ table }, i) => {
    const rows = results[i]?.rows ?? [];
    const count = sum(rows.map((row) => Number(row.at(-1))));
    if (count > maxRows) throw tooManyRows(table, maxRows);
    for (const row of rows) {
      table.columns.forEach(({ identifier }, position) => {
        const value = row[position];
        // An empty value links nobody.
        if (value == null || value === '' || known.get(identifier)?.has(value)) return;
        found.set(identifier, (found.get(identifier) ?? new Set()).add(value));
      });
    }
  });
  return found;
}

const tooManyRows = ({ shown }: SubjectTable, maxRows: number): EngineError =>
  tooMany(`More than ${maxRows} rows of ${quoted(shown)} match`, maxRows);

/** @param which only those rows @throws EngineError invalid_request */
export async function countRows(
  db: Runner,
  { tables }: Subjects,
  values: Values,
  maxRows: number,
  which = sql`true`,
): Promise<Map<string, number>> {
  const counts = new Map(tables.map(({ shown }) => [shown, 0]));
  const looked = tables.flatMap((table) => {
    const condition = belongsTo(table, values);
    return condition === null ? [] : [{ table, condition }];
  });
  const results = await db.run(
    looked.map(
      ({ table, condition }) =>
        sql`SELECT pg_catalog.count(*) FROM (SELECT FROM ${tableName(table)} WHERE ${condition} AND ${which} LIMIT ${maxRows + 1}) AS found`,
    ),
  );
  looked.forEach(({ table }, i) => {
    const count = Number(results[i]?.rows[0]?.[0]);
    if (count > maxRows) throw tooManyRows(table, maxRows);
    counts.set(table.shown, count);
  });
  return counts;
}
