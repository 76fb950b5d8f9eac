/** The column for each field of the files, with its name and type, and the columns that the table lacks. */
import type { ColumnType } from '../../contract/column-types.js';
import type { Table } from '../../contract/wire/tables.js';
import { columnNames, matchingColumn, needsQuotes } from './column-names.js';
import type { Format } from './format.js';
import type { ImportOptions } from './options.js';
import type { Scan } from './scan.js';
import type { DateOrder } from './timestamps.js';

export interface Mapping {
  readonly field: string;
  /** null: the field is left out. */
  readonly column: string | null;
  /** A type of the API or of Postgres; null if unknown. */
  readonly type: string | null;
  /** Whether FLOAT would hold its integers, too. */
  readonly fitsDouble?: boolean;
  /** If the dates of this field can be read in one order only. */
  readonly dates?: DateOrder;
  /** Why this column and type. */
  readonly reason?: string;
}

/** @param table undefined if it does not exist yet */
export function mapFields(
  { fields, isComplete }: Pick<Scan, 'fields' | 'isComplete'>,
  table: Table | undefined,
  { types, keepNames = false }: ImportOptions,
): Mapping[] {
  const existing = table?.columns.map(({ name }) => name) ?? [];
  const names = columnNames(
    fields.map(({ name }) => name),
    {
      keep: keepNames,
      hasIds: fields.some(({ name, inference }) => name.toLowerCase() === 'id' && inference.isUuid),
    },
  );
  const used = new Set<string>();
  return fields.map(({ name: field, inference }, i): Mapping => {
    const match = matchingColumn(field, existing);
    // Values that are not UUIDs cannot be ids of records.
    const isMatch = match !== undefined && !used.has(match) && (match !== 'id' || inference.isUuid);
    const column = isMatch ? match : (names[i] ?? field);
    used.add(column);
    // From a delimiter at the end of each line.
    if (field === '' && inference.isEmpty && isComplete)
      return { field, column: null, type: null, reason: 'no name, no values' };
    const requested = types?.get(field) ?? types?.get(column);
    const inferred = inference.isEmpty ? null : inference.type;
    const actual = table?.columns.find(({ name }) => name === column)?.type;
    const { dates, fitsDouble } = inference;
    const reason =
      actual === undefined ? reasonFor(field, column, requested === undefined ? inference.reason : undefined) : '';
    return {
      field,
      column,
      type: actual ?? (column === 'id' ? 'uuid' : (requested ?? inferred)),
      fitsDouble,
      ...(dates === undefined ? {} : { dates }),
      ...(reason === '' ? {} : { reason }),
    };
  });
}

/** Leaves out the fields that the person names, by the name of the field or of the column. */
export const withoutSkipped = (mappings: readonly Mapping[], skip: readonly string[]): Mapping[] =>
  mappings.map((mapping) =>
    namesOf(mapping).some((name) => skip.includes(name)) ? { field: mapping.field, column: null, type: null } : mapping,
  );

/** What options may call the field. */
export const namesOf = ({ field, column }: Mapping): string[] => (column === null ? [field] : [field, column]);

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

/** Gives a column that several files have one type that holds the values of all of them. */
export function withCommonTypes<File extends MappedFile>(files: readonly File[]): File[] {
  const isJson = files.every(({ format }) => format.kind !== 'delimited');
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
