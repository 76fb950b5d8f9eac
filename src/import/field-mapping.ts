/** Maps each field of the files to a column with its name and type, and finds the columns that the table lacks. */
import type { StoreOptions } from '../client/insert.js';
import { COLUMN_TYPES, type ColumnType } from '../contract/column-types.js';
import type { Table } from '../contract/wire/tables.js';
import { columnNames, matchingColumn, needsQuotes, withWordsApart } from './column-names.js';
import { type Format, hasCells } from './format.js';
import type { Field, Scan } from './scan.js';
import type { FileReadOptions } from './source.js';
import { type DateOrder, EPOCHS, type EpochDigits } from './timestamps.js';
import { isTimeType } from './values.js';

export interface FieldMapping {
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
  /** The table has no such column: the service refuses the field, or collects it. */
  readonly isUnknown?: true;
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
  /** Columns of the table that take no values. */
  generated?: ReadonlySet<string>;
}

const GENERATED = 'the table generates it';

type Scanned = Pick<Scan, 'fields' | 'isComplete' | 'firstRecords'>;

/** @param table undefined if it does not exist yet */
export function mapFields(
  scan: Scanned,
  table: Table | undefined,
  { types, flatten = false, generated = new Set(), ...naming }: MappingOptions & Pick<FileReadOptions, 'flatten'>,
): FieldMapping[] {
  return nameColumns(scan, table, naming).map(({ field, automatic, column }): FieldMapping => {
    const { name, inference, type: declared } = field;
    const leftOut = generated.has(column) ? GENERATED : whyLeftOut(field, scan, flatten);
    if (leftOut !== undefined) return { field: name, column: null, type: null, reason: leftOut };
    const requested = types?.get(name) ?? types?.get(column) ?? types?.get(automatic);
    const requestedType = requested?.type ?? declared;
    const existing = table?.columns.find((of) => of.name === column)?.type;
    const reason =
      existing === undefined
        ? whyNew(field, column, requestedType)
        : whyNotAsAsked(existing, requested) || whyUnread(field, existing, requested?.epoch);
    return {
      field: name,
      column,
      type: existing ?? (column === 'id' ? 'uuid' : (requestedType ?? (inference.isEmpty ? null : inference.type))),
      fitsDouble: inference.fitsDouble,
      ...(column === automatic ? {} : { automatic }),
      dates: inference.dates,
      epoch: requested?.epoch,
      ...(reason === '' ? {} : { reason }),
    };
  });
}

/** The column of each field: one of the table with a like name, a name made of the field's, or the one of `rename`. */
function nameColumns({ fields, firstRecords }: Scanned, table: Table | undefined, naming: MappingOptions) {
  const { rename, keepNames: keep = false, snakeCase = false } = naming;
  // Without records, any text may be an id.
  const areIds = ({ inference, type }: Field): boolean =>
    inference.isUuid || (firstRecords.length === 0 && (type ?? 'TEXT') === 'TEXT');
  const existing = table?.columns.map(({ name }) => name) ?? [];
  const spelled = fields.map(({ name }) => (snakeCase ? withWordsApart(name) : name));
  const hasIds = fields.some((field) => field.name.toLowerCase() === 'id' && areIds(field));
  const names = columnNames(spelled, { keep, hasIds });
  const used = new Set<string>();
  return fields.map((field, i) => {
    const match = matchingColumn(spelled[i] ?? field.name, existing) ?? matchingColumn(field.name, existing);
    // Values that are not UUIDs cannot be ids of records.
    const isMatch = match !== undefined && !used.has(match) && (match !== 'id' || areIds(field));
    const automatic = isMatch ? match : (names[i] ?? field.name);
    const column = rename?.get(automatic) ?? rename?.get(field.name) ?? automatic;
    used.add(column);
    return { field, automatic, column };
  });
}

function whyLeftOut({ name, inference }: Field, { fields, isComplete }: Scanned, flatten: boolean): string | undefined {
  if (!inference.isEmpty || !isComplete) return undefined;
  // Caused by a delimiter at the end of each line.
  if (name === '') return 'no name, no values';
  // The field is an object in some records, and null in others.
  return flatten && fields.some((other) => other.name.startsWith(`${name}_`)) ? 'only null and objects' : undefined;
}

const whyNotAsAsked = (
  existing: string,
  requested: { readonly type: string; readonly epoch?: unknown } | undefined,
): string =>
  requested === undefined || requested.epoch !== undefined || requested.type === existing
    ? ''
    : `not ${requested.type}, because the table has the column already`;

function whyNew({ name, inference }: Field, column: string, requestedType: string | undefined): string {
  const ofType = requestedType === undefined && inference.reason;
  const ofId = name.toLowerCase() === 'id' && column !== 'id' && 'id is for UUIDs';
  return [ofType, ofId, needsQuotes(column) && `in SQL: "${column}"`].filter(Boolean).join('; ');
}

/** An existing column does not show the order of day and month. */
function whyUnread({ inference: { type, dates, reason = '' } }: Field, existing: string, epoch?: EpochDigits): string {
  return isTimeType(existing) && epoch === undefined && (type === 'TEXT' || dates !== undefined) ? reason : '';
}

/** Leaves out the fields that the user names, by the name of the field or of the column. */
export const withoutSkipped = (mappings: readonly FieldMapping[], skip: readonly string[]): FieldMapping[] =>
  mappings.map((mapping) =>
    namesOf(mapping).some((name) => skip.includes(name)) ? { field: mapping.field, column: null, type: null } : mapping,
  );

/** The names by which options may refer to the field. */
export const namesOf = ({ field, column, automatic }: FieldMapping): string[] =>
  [field, column, automatic].filter((name) => typeof name === 'string');

/** What the service does with fields that are no columns of the table, as far as they are known. */
export function withUnknown(
  mappings: readonly FieldMapping[],
  existing: ReadonlySet<string>,
  { unknown }: Pick<StoreOptions, 'unknown'>,
): FieldMapping[] {
  return mappings.map((mapping) => {
    const { field, column } = mapping;
    if (column === null || column === 'id' || existing.has(column)) return mapping;
    if (unknown === 'ignore') return { field, column: null, type: null, reason: 'the table has no such column' };
    const reason = unknown === undefined ? 'no such column: quarantined' : `no such column: ${unknown}`;
    return { ...mapping, column: existing.has(field) ? column : field, isUnknown: true, reason };
  });
}

interface MappedFile {
  format: Format;
  mappings: FieldMapping[];
}

/** If several files have a column, gives it one type that holds the values of all of them. */
export function withCommonTypes<File extends MappedFile>(files: readonly File[]): File[] {
  const isJson = files.every(({ format }) => !hasCells(format.kind));
  const byColumn = new Map<string, FieldMapping[]>();
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

function commonType(mappings: readonly FieldMapping[], isJson: boolean): string {
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
  for (const { column, type, isUnknown } of files.flatMap(({ mappings }) => mappings)) {
    if (column !== null && !isUnknown && !existing.has(column)) missing.set(column, type as ColumnType);
  }
  return [...missing].map(([name, type]) => ({ name, type }));
}

// The types that `--types` accepts: those of the API, and numbers that count from 1970, which become TIMESTAMP.

export interface RequestedType {
  readonly type: ColumnType;
  readonly epoch?: EpochDigits;
}

export const REQUESTED_TYPES: readonly string[] = [...COLUMN_TYPES, ...Object.keys(EPOCHS)];

/** @param name in any case */
export function requestedType(name: string): RequestedType | undefined {
  const upper = name.toUpperCase();
  const type = COLUMN_TYPES.find((candidate) => candidate === upper);
  if (type !== undefined) return { type };
  const epoch = Object.hasOwn(EPOCHS, upper) ? EPOCHS[upper as keyof typeof EPOCHS] : undefined;
  return epoch === undefined ? undefined : { type: 'TIMESTAMP', epoch };
}
