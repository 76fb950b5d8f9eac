/** What a declaration does not cover, and what would make an erasure fast; and the proposal of a declaration. */
import { normalized } from '../../contract/subjects.js';
import type { Declaration, MissingIndex, NotCovered, SubjectKind } from '../../contract/wire/subjects.js';
import { ident } from '../../pg/index.js';
import { SEGMENT_TABLES } from '../segments/segment-sql.js';
import {
  type CatalogColumn,
  type CatalogTable,
  hasOperator,
  type SubjectCatalog,
  type Subjects,
} from './subject-tables.js';

/** Names of columns that look as if they held people. */
const LOOKS_LIKE =
  /(^|_)(e?_?mail|phone|mobile|fax|user|customer|client|member|person|contact|visitor|anonymous|account|subscriber|patient|employee|first_?name|last_?name|full_?name|surname|street|address|birth(day|date)?|dob|iban|ssn|passport|ip|device|cookie)(_?(id|no|nr|num|number|key|uuid|hash|address|name))?$/i;

/** Names that identify, and do not only describe. */
const IDENTIFIES =
  /(^|_)(e?_?mail(_?address)?|phone(_?(no|number))?|mobile(_?(no|number))?|(user|customer|client|member|person|contact|visitor|anonymous|subscriber|patient|employee)_?(id|no|nr|num|number|key|uuid))$/i;

const PEOPLE =
  /^(.*_)?(users?|customers?|clients?|members?|people|persons?|contacts?|visitors?|subscribers?|patients?|employees?|profiles?)$/i;

const isTable = ({ kind, isPartition }: CatalogTable): boolean => (kind === 'r' || kind === 'p') && !isPartition;

const isOfSegments = ({ shown, columns }: CatalogTable): boolean =>
  SEGMENT_TABLES.includes(shown) && ['segment', 'key'].every((name) => columns.some((column) => column.name === name));

const mayIdentify = ({ type, isGenerated }: CatalogColumn): boolean =>
  !isGenerated && (hasOperator(type) || type === 'citext' || type === 'character');

/** Tables without a kind, and columns of declared ones that look like an identifier and are none. */
export function notCovered(catalog: SubjectCatalog, declaration: Declaration): NotCovered[] {
  const declared = Object.values(declaration).flatMap(({ tables }) => Object.entries(tables));
  return [...catalog.tables.values()].filter(isTable).flatMap((table) => {
    // An erasure visits them without a declaration (places.ts).
    if (isOfSegments(table)) return [];
    const kinds = declared.filter(([name]) => name === table.shown).map(([, one]) => one);
    const covered = new Set(
      kinds.flatMap(({ columns, erase }) =>
        erase === 'delete' ? ['*'] : [...Object.keys(columns), ...Object.keys(erase.set)],
      ),
    );
    if (covered.has('*')) return [];
    const columns = table.columns.map(({ name }) => name).filter((name) => LOOKS_LIKE.test(name) && !covered.has(name));
    return kinds.length === 0 || columns.length > 0 ? [{ table: table.shown, columns }] : [];
  });
}

/** Small tables are read as fast without one. */
const MANY_ROWS = 10_000;

/** Columns of large tables that no index serves. */
export const missingIndexes = ({ tables }: Subjects): MissingIndex[] =>
  tables.flatMap(({ shown, schema, name: table, rows, columns }) =>
    rows < MANY_ROWS
      ? []
      : columns
          .filter(({ isIndexed }) => !isIndexed)
          .map(({ name, normalization, type }) => {
            const column = ident(name).text;
            const plain = hasOperator(type) ? column : `(${column}::text)`;
            const key =
              normalization === 'exact-1' ? plain : `_cdp.caseless_1(${column}${type === 'text' ? '' : '::text'})`;
            return { table: shown, column: name, sql: `CREATE INDEX ON ${ident(schema, table).text} (${key})` };
          }),
  );

/**
 * Proposes a declaration from unique columns, foreign keys and equal names.
 * @returns null if no table looks as if it held people
 */
export function propose({ tables, foreignKeys }: SubjectCatalog): Declaration | null {
  const usable = [...tables.values()].filter((table) => isTable(table) && !isOfSegments(table));
  const people = usable.filter(({ name, columns }) => PEOPLE.test(name) && columns.some(mayIdentify));
  /** Identifier by table and column. */
  const identifiers = new Map<string, string>();
  const key = (table: string, column: string) => `${table}\0${column}`;
  for (const { shown, name, columns } of people) {
    for (const column of columns.filter(mayIdentify)) {
      const isKey = column.isUnique && !IDENTIFIES.test(column.name);
      if (isKey) identifiers.set(key(shown, column.name), identifierName(`${singular(name)}_${column.name}`));
    }
  }
  for (const { shown, columns } of usable)
    for (const { name } of columns.filter((column) => mayIdentify(column) && IDENTIFIES.test(column.name)))
      identifiers.set(key(shown, name), identifierName(name));
  // What refers to an identifier holds the same one.
  const referring = new Set<string>();
  for (let again = true; again;) {
    again = false;
    for (const { from, to, columns, referenced } of foreignKeys) {
      columns.forEach((column, i) => {
        const target = identifiers.get(key(to, referenced[i] ?? ''));
        if (target === undefined || referring.has(key(from, column))) return;
        identifiers.set(key(from, column), target);
        referring.add(key(from, column));
        again = true;
      });
    }
  }
  const kind: { identifiers: SubjectKind['identifiers']; tables: SubjectKind['tables'] } = {
    identifiers: {},
    tables: {},
  };
  for (const table of usable) {
    const columns = table.columns.flatMap(({ name }): [string, string][] => {
      const identifier = identifiers.get(key(table.shown, name));
      return identifier === undefined ? [] : [[name, identifier]];
    });
    if (columns.length === 0) continue;
    kind.tables[table.shown] = {
      columns: Object.fromEntries(columns),
      erase: 'delete',
      ...(people.includes(table) ? { one_row_per_subject: true } : {}),
    };
    for (const [, identifier] of columns)
      kind.identifiers[identifier] = /mail/.test(identifier) ? { normalization: 'caseless-1' } : {};
  }
  return Object.keys(kind.tables).length === 0 ? null : { person: kind };
}

const singular = (name: string): string => name.replace(/(?<=...)s$/, '');

/** As names of identifiers are. */
const identifierName = (name: string): string =>
  normalized(name, 'caseless-1')
    .replace(/[^a-z0-9_]/g, '_')
    .replace(/^[^a-z]+/, '')
    .replace(/^e_?mail(_?address)?$/, 'email')
    .slice(0, 63) || 'id';
