/** Where people are: a declaration as Postgres's catalogs see it now, and what is wrong with it. */
import type { Normalization } from '../../contract/subjects.js';
import { quoted } from '../../contract/message-text.js';
import {
  SUBJECT_FIELDS,
  type DeclaredTable,
  type SubjectKind,
  type SubjectProblem,
} from '../../contract/wire/subjects.js';
import type { ErrorCode } from '../../contract/errors.js';
import { type Fragment, ident, type Result, type Row, sql, type Statement, type Step } from '../../pg/index.js';

/** What a transaction of the API and a session of a restore have in common. */
export interface Runner {
  query(statement: Statement): Promise<Row[]>;
  run(steps: readonly Step[]): Promise<readonly Result[]>;
  rowCount(statement: Statement): Promise<number>;
}

/** The schema of the API, and the role that owns the schemas of the project. */
export interface Home {
  readonly schema: string;
  readonly writer: string;
}

export interface CatalogColumn {
  readonly name: string;
  /** Without modifiers; of a domain its base type. */
  readonly type: string;
  /** With modifiers, for casts. */
  readonly castType: string;
  readonly isGenerated: boolean;
  readonly notNull: boolean;
  /** Whether an index begins with it: as it is, or as `_cdp.caseless_1` of it. */
  readonly isIndexed: boolean;
  readonly isCaselessIndexed: boolean;
  /** A unique index has it as its only column. */
  readonly isUnique: boolean;
}

export interface CatalogTable {
  readonly schema: string;
  readonly name: string;
  /** `events`, or `archive.events` outside the schema of the API. */
  readonly shown: string;
  /** As in pg_class. */
  readonly kind: string;
  readonly isPartition: boolean;
  /** An estimate. */
  readonly rows: number;
  readonly maySelect: boolean;
  readonly mayDelete: boolean;
  readonly mayUpdate: boolean;
  readonly columns: readonly CatalogColumn[];
}

export interface ForeignKey {
  /** Shown names of the referencing and the referenced table. */
  readonly from: string;
  readonly to: string;
  readonly columns: readonly string[];
  readonly referenced: readonly string[];
}

export interface SubjectCatalog {
  readonly tables: ReadonlyMap<string, CatalogTable>;
  readonly foreignKeys: readonly ForeignKey[];
}

const ofProject = ({ schema, writer }: Home): Fragment =>
  sql`(n.nspname = ${schema}::pg_catalog.name OR n.nspowner = ${writer}::pg_catalog.regrole::pg_catalog.oid)`;

const shownName = ({ schema }: Home): Fragment =>
  sql`CASE WHEN n.nspname = ${schema}::pg_catalog.name THEN c.relname::pg_catalog.text
    ELSE pg_catalog.concat(n.nspname, '.', c.relname) END`;

/** Names are qualified, since the search path may be the project's. */
export async function readSubjectCatalog(db: Runner, home: Home): Promise<SubjectCatalog> {
  const leads = (what: Fragment) => sql`EXISTS (SELECT FROM pg_catalog.pg_index i
    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND ${what})`;
  const [tables, keys] = await db.run([
    sql`SELECT pg_catalog.jsonb_build_object('schema', n.nspname, 'name', c.relname, 'shown', ${shownName(home)},
        'kind', c.relkind, 'isPartition', c.relispartition, 'rows', GREATEST(c.reltuples, 0),
        'maySelect', pg_catalog.has_table_privilege(c.oid, 'SELECT'),
        'mayDelete', pg_catalog.has_table_privilege(c.oid, 'DELETE'),
        'mayUpdate', pg_catalog.has_table_privilege(c.oid, 'UPDATE'),
        'columns', (SELECT COALESCE(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('name', a.attname,
            'type', pg_catalog.format_type(COALESCE(NULLIF(t.typbasetype, 0::pg_catalog.oid), t.oid), -1),
            'castType', pg_catalog.format_type(a.atttypid, a.atttypmod),
            'isGenerated', a.attgenerated <> '' OR a.attidentity = 'a', 'notNull', a.attnotnull,
            'isIndexed', ${leads(sql`i.indkey[0] = a.attnum`)},
            'isCaselessIndexed', ${leads(sql`i.indkey[0] = 0 AND pg_catalog.starts_with(pg_catalog.pg_get_indexdef(i.indexrelid, 1, true),
              pg_catalog.concat('_cdp.caseless_1(', pg_catalog.quote_ident(a.attname)))`)},
            'isUnique', ${leads(sql`i.indisunique AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum`)}) ORDER BY a.attnum), '[]')
          FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${ofProject(home)} ORDER BY 1`,
    sql`SELECT pg_catalog.jsonb_build_object('from', (${named(home, sql`k.conrelid`)}), 'to', (${named(home, sql`k.confrelid`)}),
        'columns', ${columnsIn(sql`k.conrelid`, sql`k.conkey`)}, 'referenced', ${columnsIn(sql`k.confrelid`, sql`k.confkey`)})
      FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE k.contype = 'f' AND k.conparentid = 0::pg_catalog.oid AND ${ofProject(home)}`,
  ]);
  const read = <T>(result: Result | undefined): T[] =>
    (result?.rows ?? []).map(([json]) => JSON.parse(json ?? '') as T);
  return {
    tables: new Map(read<CatalogTable>(tables).map((table) => [table.shown, table])),
    foreignKeys: read<ForeignKey>(keys),
  };
}

const named = (home: Home, oid: Fragment): Fragment =>
  sql`SELECT ${shownName(home)} FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ${oid}`;

const columnsIn = (relation: Fragment, numbers: Fragment): Fragment =>
  sql`(SELECT pg_catalog.jsonb_agg(a.attname ORDER BY u.n) FROM pg_catalog.unnest(${numbers}) WITH ORDINALITY AS u (number, n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = ${relation} AND a.attnum = u.number)`;

/** A column that identifies people. */
export interface SubjectColumn {
  readonly name: string;
  readonly identifier: string;
  readonly normalization: Normalization;
  readonly type: string;
  /** Whether an index serves a look-up. */
  readonly isIndexed: boolean;
}

export interface SetColumn {
  readonly name: string;
  readonly castType: string;
  readonly to: null | string | number | boolean | { readonly random: string };
}

/** A table with people, as it is now. */
export interface SubjectTable {
  readonly schema: string;
  readonly name: string;
  readonly shown: string;
  readonly rows: number;
  readonly columns: readonly SubjectColumn[];
  /** null: its rows are deleted. */
  readonly set: readonly SetColumn[] | null;
  readonly onePerSubject: boolean;
}

export interface Subjects {
  readonly kind: string;
  readonly normalizations: ReadonlyMap<string, Normalization>;
  /** Those that refer to others come before them. */
  readonly tables: readonly SubjectTable[];
  readonly materializedViews: readonly Pick<CatalogTable, 'schema' | 'name' | 'shown'>[];
}

export type Problem = SubjectProblem & { readonly error: ErrorCode };

const KINDS: Readonly<Record<string, string>> = {
  v: 'a view: declare the tables behind it',
  m: 'a materialized view: name it in "materialized_views"',
  f: 'a foreign table: its rows are elsewhere',
};

/** Reads a declared kind against the catalog. What is wrong is left out of the result, and listed. */
export function resolveKind(
  kind: string,
  declared: SubjectKind,
  catalog: SubjectCatalog,
): { subjects: Subjects; problems: Problem[] } {
  const problems: Problem[] = [];
  const normalizations = new Map(
    Object.entries(declared.identifiers).map(([name, { normalization = 'exact-1' }]) => [name, normalization]),
  );
  const tables = Object.entries(declared.tables).flatMap(
    ([name, table]) => resolveTable(name, table, catalog, normalizations, problems) ?? [],
  );
  const used = new Set(Object.values(declared.tables).flatMap(({ columns }) => Object.values(columns)));
  for (const identifier of normalizations.keys())
    if (!used.has(identifier))
      problems.push(wrong(kind, undefined, `No column holds the identifier ${quoted(identifier)}`));
  if ((SUBJECT_FIELDS as readonly string[]).includes(kind))
    problems.push(
      wrong(kind, undefined, `A kind cannot be called ${quoted(kind)}: requests have a field of this name`),
    );
  const materializedViews = (declared.materialized_views ?? []).flatMap((name) => {
    const view = catalog.tables.get(name);
    if (view?.kind === 'm') return [view];
    problems.push(wrong(name, undefined, `There is no materialized view ${quoted(name)}`, 'table_not_found'));
    return [];
  });
  return { subjects: { kind, normalizations, tables: inOrder(tables, catalog), materializedViews }, problems };
}

const wrong = (
  table: string,
  column: string | undefined,
  problem: string,
  error: ErrorCode = 'invalid_request',
): Problem => ({ table, ...(column === undefined ? {} : { column }), problem, error });

/** @returns null if there is no such table */
function resolveTable(
  shown: string,
  declared: DeclaredTable,
  catalog: SubjectCatalog,
  normalizations: ReadonlyMap<string, Normalization>,
  problems: Problem[],
): SubjectTable | null {
  const table = catalog.tables.get(shown);
  const add = (problem: string, column?: string, error?: ErrorCode) =>
    problems.push(
      wrong(shown, column, `${quoted(shown)}${column === undefined ? '' : `.${quoted(column)}`} ${problem}`, error),
    );
  if (table === undefined) {
    problems.push(wrong(shown, undefined, `There is no table ${quoted(shown)}`, 'table_not_found'));
    return null;
  }
  const notATable =
    KINDS[table.kind] ?? (table.isPartition ? 'a partition: declare the table that it is part of' : null);
  if (notATable !== null) {
    add(`is ${notATable}`);
    return null;
  }
  const set = declared.erase === 'delete' ? null : declared.erase.set;
  if (!table.maySelect || !(set === null ? table.mayDelete : table.mayUpdate))
    add(
      `cannot be read and changed by the project's writer, as which people are erased: GRANT SELECT, ${set === null ? 'DELETE' : 'UPDATE'} to it`,
      undefined,
      'permission_denied',
    );
  const byName = new Map(table.columns.map((column) => [column.name, column]));
  const columns = Object.entries(declared.columns).flatMap(([name, identifier]) => {
    const column = byName.get(name);
    const normalization = normalizations.get(identifier);
    if (normalization === undefined) add(`holds ${quoted(identifier)}, which is not among the identifiers`, name);
    if (column === undefined) add('does not exist', name, 'column_not_found');
    if (column === undefined || normalization === undefined) return [];
    if (column.isGenerated) add('is generated', name);
    if (/^(jsonb?|bytea|xml)$|\[\]$/.test(column.type))
      add(`has the type ${column.type}, which identifies nobody`, name);
    if (set !== null && !Object.hasOwn(set, name))
      add('would still identify people, because the rows stay: set it, or delete the rows', name);
    const isIndexed =
      normalization === 'exact-1' ? column.isIndexed && hasOperator(column.type) : column.isCaselessIndexed;
    return [{ name, identifier, normalization, type: column.type, isIndexed }];
  });
  const setColumns = Object.entries(set ?? {}).flatMap(([name, to]) => {
    const column = byName.get(name);
    if (column === undefined) {
      add('does not exist', name, 'column_not_found');
      return [];
    }
    if (column.isGenerated) add('is generated', name);
    if (to === null && column.notNull) add('is NOT NULL', name);
    if (column.isUnique && to !== null && typeof to !== 'object') add('is unique: use {"random": "…"}', name);
    const isRandom = to !== null && typeof to === 'object';
    if (isRandom && !/^(text|character varying|citext|uuid)$/.test(column.type))
      add(`has the type ${column.type}: only text and uuid take a random value`, name);
    if (isRandom && column.type === 'uuid' && to.random !== '') add('has the type uuid: use {"random": ""}', name);
    return [{ name, castType: column.castType, to }];
  });
  const { schema, name, rows } = table;
  const onePerSubject = declared.one_row_per_subject === true;
  return { schema, name, shown, rows, columns, set: set === null ? null : setColumns, onePerSubject };
}

/** Whether values are compared by an operator of the type, which an index serves. */
export const hasOperator = (type: string): boolean =>
  /^(smallint|integer|bigint|uuid|text|character varying)$/.test(type);

/** Tables that refer to others come first; in a cycle, in any order. */
function inOrder(tables: readonly SubjectTable[], { foreignKeys }: SubjectCatalog): SubjectTable[] {
  const left = new Map(tables.map((table) => [table.shown, table]));
  const ordered: SubjectTable[] = [];
  while (left.size > 0) {
    const isReferred = (name: string) =>
      foreignKeys.some(({ from, to }) => to === name && from !== name && left.has(from));
    const free = [...left.values()].filter(({ shown }) => !isReferred(shown));
    for (const table of free.length > 0 ? free : [...left.values()].slice(0, 1)) {
      ordered.push(table);
      left.delete(table.shown);
    }
  }
  return ordered;
}

export const tableName = ({ schema, name }: Pick<SubjectTable, 'schema' | 'name'>) => ident(schema, name);
