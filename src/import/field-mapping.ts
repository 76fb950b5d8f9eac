/** Maps each field of the files to a column with its name and type, and finds the columns that the table lacks. */
import type { ColumnType } from '../contract/column-types.js';
import type { Table } from '../contract/wire/tables.js';
import { columnNames, matchingColumn, needsQuotes, withWordsApart } from './column-names.js';
import { type Format, hasCells } from './format.js';
import type { EpochDigits, RequestedType } from './requested-types.js';
import type { Field, Scan } from './scan.js';
import type { ReadOptions } from './source.js';
import type { DateOrder } from './timestamps.js';

export interface Mapping {
  readonly field: string;
  /** null: the field is left out. */
  readonly column: string | null;
  /** The column that the field would have without `--rename`. */
  readonly automatic?: string;
  /** A type of the API or of Postgres; null if unknown. */
  readonly type: string | null;
  /** Whether FLOAT would hold its integers, too. */
  readonly fitsDouble?: boolean;
  /** Set if the field's dates are valid in only one order. */
  readonly dates?: DateOrder | undefined;
  /** Set if the field's numbers are times. */
  readonly epoch?: EpochDigits | undefined;
  /** The reason for this column and type. */
  readonly reason?: string;
}

/** The user's options for columns. */
export interface MappingOptions {
  /** By the name of the field or of the column. */
  types?: ReadonlyMap<string, RequestedType>;
  /** From the name of a field, or of its default column, to the name of its column. */
  rename?: ReadonlyMap<string, string>;
  snakeCase?: boolean;
  keepNames?: boolean;
}

/** @param table undefined if it does not exist yet */
export function mapFields(
  { fields, isComplete, first }: Pick<Scan, 'fields' | 'isComplete' | 'first'>,
  table: Table | undefined,
  {
    types,
    rename,
    keepNames = false,
    snakeCase = false,
    flatten = false,
  }: MappingOptions & Pick<ReadOptions, 'flatten'>,
): Mapping[] {
  // Without records, any text may be an id.
  const areIds = ({ inference, type }: Field): boolean =>
    inference.isUuid || (first.length === 0 && (type ?? 'TEXT') === 'TEXT');
  const existing = table?.columns.map(({ name }) => name) ?? [];
  const spelled = fields.map(({ name }) => (snakeCase ? withWordsApart(name) : name));
  const names = columnNames(spelled, {
    keep: keepNames,
    hasIds: fields.some((field) => field.name.toLowerCase() === 'id' && areIds(field)),
  });
  const used = new Set<string>();
  return fields.map((each, i): Mapping => {
    const { name: field, inference, type: declared } = each;
    const match = matchingColumn(spelled[i] ?? field, existing) ?? matchingColumn(field, existing);
    // Values that are not UUIDs cannot be ids of records.
    const isMatch = match !== undefined && !used.has(match) && (match !== 'id' || areIds(each));
    const automatic = isMatch ? match : (names[i] ?? field);
    const column = rename?.get(automatic) ?? rename?.get(field) ?? automatic;
    used.add(column);
    if (inference.isEmpty && isComplete) {
      // Caused by a delimiter at the end of each line.
      if (field === '') return { field, column: null, type: null, reason: 'no name, no values' };
      // The field is an object in some records, and null in others.
      if (flatten && fields.some(({ name }) => name.startsWith(`${field}_`)))
        return { field, column: null, type: null, reason: 'only null and objects' };
    }
    const { type: requested, epoch } = types?.get(field) ?? types?.get(column) ?? types?.get(automatic) ?? {};
    const inferred = declared ?? (inference.isEmpty ? null : inference.type);
    const actual = table?.columns.find(({ name }) => name === column)?.type;
    const { dates, fitsDouble } = inference;
    // An existing table does not show the order of day and month.
    const isUnread =
      actual === 'TIMESTAMP' && epoch === undefined && (inference.type === 'TEXT' || dates !== undefined);
    const reason =
      actual === undefined
        ? reasonFor(field, column, (requested ?? declared) === undefined ? inference.reason : undefined)
        : isUnread
          ? (inference.reason ?? '')
          : '';
    return {
      field,
      column,
      type: actual ?? (column === 'id' ? 'uuid' : (requested ?? inferred)),
      fitsDouble,
      ...(column === automatic ? {} : { automatic }),
      dates,
      epoch,
      ...(reason === '' ? {} : { reason }),
    };
  });
}

/** Leaves out the fields that the user names, by the name of the field or of the column. */
export const withoutSkipped = (mappings: readonly Mapping[], skip: readonly string[]): Mapping[] =>
  mappings.map((mapping) =>
    namesOf(mapping).some((name) => skip.includes(name)) ? { field: mapping.field, column: null, type: null } : mapping,
  );

/** The names by which options may refer to the field. */
export const namesOf = ({ field, column, automatic }: Mapping): string[] =>
  [field, column, automatic].filter((name) => typeof name === 'string');

function reasonFor(field: string, column: string, ofType: string | undefined): string {
  return [
    ...(ofType === undefined ? [] : [ofType]),
    ...(field.toLowerCase() === 'id' && column !== 'id' ? ['id is for UUIDs'] : []),
    ...(needsQuotes(column) ? [`in SQL: "${column}"`] : []),
  ].join('; ');
}

interface MappedFile {
  format: Format;
  mappings: Mapping[];
}

/** If several files have a column, gives it one type that holds the values of all of them. */
export function withCommonTypes<File extends MappedFile>(files: readonly File[]): File[] {
  const isJson = files.every(({ format }) => !hasCells(format.kind));
  const byColumn = new Map<string, Mapping[]>();
  for (const mapping of files.flatMap(({ mappings }) => mappings)) {
    if (mapping.column === null || mapping.type === null) continue;
    byColumn.set(mapping.column, [...(byColumn.get(mapping.column) ?? []), mapping]);
  }
  const types = new Map([...byColumn].map(([column, mappings]) => [column, commonType(mappings, isJson)]));
  return files.map((file) => ({
    ...file,
    mappings: file.mappings.map((mapping) =>
      mapping.column === null ? mapping : { ...mapping, type: types.get(mapping.column) ?? 'TEXT' },
    ),
  }));
}

function commonType(mappings: readonly Mapping[], isJson: boolean): string {
  const types = [...new Set(mappings.map(({ type }) => type ?? 'TEXT'))];
  if (types.length === 1) return types[0] ?? 'TEXT';
  const isNumber = mappings.every(({ type, fitsDouble }) => type === 'FLOAT' || (type === 'INTEGER' && fitsDouble));
  if (isNumber) return 'FLOAT';
  return isJson && types.includes('JSONB') ? 'JSONB' : 'TEXT';
}

/** The columns that the files need and the table lacks, each once. */
export function missingColumns(
  files: readonly MappedFile[],
  table: Table | undefined,
): { name: string; type: ColumnType }[] {
  const existing = new Set(['id', ...(table?.columns.map(({ name }) => name) ?? [])]);
  const missing = new Map<string, ColumnType>();
  for (const { column, type } of files.flatMap(({ mappings }) => mappings)) {
    if (column !== null && !existing.has(column)) missing.set(column, type as ColumnType);
  }
  return [...missing].map(([name, type]) => ({ name, type }));
}
