/**
 * The plan of an import: how to read each file, and which column each field goes to. It does not change during the
 * import.
 */
import { didYouMean } from '../contract/did-you-mean.js';
import { LIMITS } from '../contract/limits.js';
import type { Table } from '../contract/wire/tables.js';
import type { Cell } from './csv-reader.js';
import { FileError } from './file-error.js';
import {
  mapFields,
  type FieldMapping,
  type MappingOptions,
  missingColumns,
  namesOf,
  withCommonTypes,
  withoutSkipped,
  withUnknown,
} from './field-mapping.js';
import type { Format } from './format.js';
import { membersOf } from './json-records.js';
import type { StoreOptions } from '../client/insert.js';
import { type Field, scan, type Scan, type StartProgress } from './scan.js';
import type { FileRecord, ImportFile, FileReadOptions, Source } from './source.js';

export interface PlannedFile {
  path: string;
  /** Changes if the file does; null if it can be read only once. */
  identity: string | null;
  format: Format;
  mappings: FieldMapping[];
}

export interface ImportPlan {
  files: PlannedFile[];
  reading: FileReadOptions;
  storing: StoreOptions;
}

export interface PlanResult {
  plan: ImportPlan;
  warnings: readonly string[];
  /** The first few records of each file. */
  firstRecords: readonly (readonly FileRecord[])[];
  /** Each file that can be read only once, still open. */
  opened: readonly (Source | undefined)[];
}

export interface PlanOptions extends FileReadOptions, MappingOptions {
  addColumns?: boolean;
  /** The number of records from which to infer types; default: all, if columns will be created. */
  sample?: number;
}

/** Enough to see which existing columns the file has. */
const SAMPLE_FOR_EXISTING_COLUMNS = 10_000;

/**
 * @param table undefined if it does not exist yet
 * @param storing how to store the records
 * @throws FileError
 */
export async function planImport(
  inputs: readonly ImportFile[],
  table: Table | undefined,
  options: PlanOptions,
  storing: StoreOptions,
  watch: StartProgress,
): Promise<PlanResult> {
  const createsColumns = table === undefined || options.addColumns;
  const scanOptions = {
    notation: options,
    sample: options.sample ?? (createsColumns ? Infinity : SAMPLE_FOR_EXISTING_COLUMNS),
    toTheEnd: options.sample === undefined,
    watch,
  };
  const takesUnknown = !createsColumns && (storing.unknown !== undefined || storing.onError !== undefined);
  const existing = new Set(table?.columns.map(({ name }) => name));
  const files: PlannedFile[] = [];
  const mapped: FieldMapping[] = [];
  const warnings: string[] = [];
  const first: (readonly FileRecord[])[] = [];
  const opened: (Source | undefined)[] = [];
  for (const input of inputs) {
    const { path } = input;
    const identity = await input.identity();
    const source = await input.open(options);
    const scanned = await scan(source, scanOptions);
    requireFields(source, path, scanned, table);
    requireHeaderOfMost(source, scanned);
    const mappings = mapFields(scanned, table, options);
    mapped.push(...mappings);
    const wanted = withoutSkipped(mappings, options.skip ?? []);
    const remaining = takesUnknown ? withUnknown(wanted, existing, storing) : wanted;
    requireDistinct(source, remaining);
    const created = remaining
      .filter(({ column }) => column !== null && !existing.has(column))
      .map(({ field }) => field);
    if (created.length > 0) requireHeader(source, scanned, options);
    requireRecords(
      source,
      path,
      scanned,
      created.filter((field) => !options.types?.has(field)),
    );
    warnings.push(...warningsFor(source, scanned));
    files.push({ path, identity, format: source.format, mappings: remaining });
    first.push(scanned.firstRecords);
    opened.push(scanned.records === undefined ? undefined : { ...source, records: scanned.records });
  }
  const { skip = [], rename, types } = options;
  requireKnown(
    { '--skip': skip, '--rename': [...(rename?.keys() ?? [])], '--types': [...(types?.keys() ?? [])] },
    mapped,
  );
  const plan = { files: withCommonTypes(files), reading: options, storing };
  const count = (table?.columns.length ?? 1) - 1 + missingColumns(plan.files, table).length;
  if (count > LIMITS.columnsPerTable) {
    throw new FileError(
      `The table would have ${count} columns, but the limit is ${LIMITS.columnsPerTable}`,
      'Leave some out (--skip a,b), or combine values that belong together in one JSON value',
    );
  }
  return { plan, warnings, firstRecords: first, opened };
}

/** @throws FileError if no record has fields; for an existing table, a file without records is allowed */
function requireFields(
  { input: { label } }: Source,
  path: string,
  { fields, firstRecords: [record], isComplete }: Scan,
  table: Table | undefined,
): void {
  if (fields.length > 0) return;
  if (record === undefined && isComplete) {
    if (table !== undefined) return;
    throw new FileError(`${label} has no records, so the columns of the table are unknown`);
  }
  const hint = record?.text?.startsWith('[')
    ? `They are arrays; as CSV: jq -r '.[] | @csv' ${path} | cdp import - …`
    : 'A record looks like {"a": 1}';
  throw new FileError(`${label}: no record is a JSON object`, hint);
}

/** @throws FileError if most records would be refused, because the first line is not their header */
function requireHeaderOfMost({ input: { label }, otherDelimiter }: Source, { fields, otherWidth }: Scan): void {
  if (otherWidth === undefined) return;
  const { fields: width, line, cells } = otherWidth;
  throw new FileError(
    `${label}: most records have ${width} fields, as in line ${line}, the header ${fields.length}`,
    otherDelimiter === undefined ? howToNameFields(width, line, cells) : tryDelimiter(otherDelimiter),
  );
}

/** Skipping the lines before a record would drop the header. */
const howToNameFields = (width: number, line: number, cells: readonly Cell[]): string =>
  cells.every((cell) => cell !== null && !LIKE_A_VALUE.test(cell.trim()))
    ? `If line ${line} is the header: --skip-lines ${line - 1}. If there is none, name the fields with --columns`
    : `Line ${line} looks like a record. If another delimiter separates its fields: --delimiter; if not, name the ${width} fields: --skip-lines ${line - 1} --columns a,b,…`;

/** Nothing, a number, a date or a time. Years may be names. */
const LIKE_A_VALUE = /^(?!(?:19|20)\d\d$)(?:[-+]?[\d.,:/ TZ+-]*\d[\d.,:/ TZ+%-]*)?$/;

/** @throws FileError if two fields would go to the same column, which only `--rename` can cause */
function requireDistinct({ input: { label } }: Source, mappings: readonly FieldMapping[]): void {
  for (const [i, { field, column }] of mappings.entries()) {
    const other = mappings.slice(0, i).find((each) => column !== null && each.column === column);
    if (other === undefined) continue;
    throw new FileError(
      `${label}: the fields "${other.field}" and "${field}" would both go to the column "${column}"`,
      'Rename one of them with --rename, or leave it out with --skip',
    );
  }
}

/**
 * Refuses unknown names: a misspelled name would import a field that should be left out. If no file has fields, all
 * names are allowed.
 * @param named the names that each option gives
 * @param mappings of all files
 * @throws FileError
 */
function requireKnown(named: Record<string, readonly string[]>, mappings: readonly FieldMapping[]): void {
  const allNames = mappings.flatMap(namesOf);
  if (allNames.length === 0) return;
  const wrong = Object.entries(named).flatMap(([option, names]) => {
    const unknown = names.filter((name) => !allNames.includes(name));
    return unknown.length === 0 ? [] : [{ option, unknown }];
  });
  if (wrong.length === 0) return;
  const [hint] = wrong.flatMap(({ unknown }) => unknown).flatMap((name) => didYouMean(name, allNames) ?? []);
  throw new FileError(
    wrong
      .map(({ option, unknown }) => `${option}: there is no field ${unknown.map((name) => `"${name}"`).join(', ')}`)
      .join('; '),
    hint ?? `The fields are ${[...new Set(mappings.map(({ field }) => field))].join(', ')}`,
  );
}

/** @throws FileError if the first record would be lost because it would name new columns */
function requireHeader({ header, input: { label } }: Source, scanned: Scan, reading: FileReadOptions): void {
  if (header === undefined || reading.columns !== undefined || !looksLikeRecord(scanned.fields)) return;
  const before = (scanned.firstRecords[0]?.line ?? 2) - 1;
  throw new FileError(
    `${label}: the first line would be the header, but looks like a record: ${header.join(', ')}`,
    `Name the ${header.length} fields with --columns a,b,…; if that line is a header, add --skip-lines ${before}`,
  );
}

/** @throws FileError if the file is one object, and all its records would go into one new column */
function requireRecords(
  { header, types, input: { label } }: Source,
  path: string,
  scanned: Scan,
  created: readonly string[],
): void {
  const member = header === undefined && types === undefined ? memberWithRecords(scanned) : undefined;
  if (member === undefined || !created.includes(member)) return;
  const name = JSON.stringify(member);
  throw new FileError(
    `${label}: the file is one record, with an array of objects in ${name}`,
    `If those are the records: jq -c '.[${name}][]' ${path} | cdp import - …; if not: --types ${member}=JSONB`,
  );
}

function warningsFor(
  { input: { label }, otherDelimiter, warnings = [] }: Source,
  { lineOfBackslashN, lineOfMisfit }: Scan,
): string[] {
  return [
    ...warnings,
    ...(lineOfBackslashN === undefined
      ? []
      : [`${label}: \\N in line ${lineOfBackslashN} is read as text. If it means NULL: --null '\\N'`]),
    ...(lineOfMisfit === undefined || otherDelimiter === undefined
      ? []
      : [`${label}: line ${lineOfMisfit} does not fit the header. ${tryDelimiter(otherDelimiter)}`]),
  ];
}

const tryDelimiter = (delimiter: string): string =>
  `Another delimiter fits all of the first lines: --delimiter '${delimiter === '\t' ? '\\t' : delimiter}'`;

/** Whether every name of the header could be a value of its column. Years may be names. */
function looksLikeRecord(fields: readonly Field[]): boolean {
  const typed = fields.filter(({ inference }) => !inference.isEmpty && inference.type !== 'TEXT');
  return (
    typed.length > 0 && typed.every(({ name, inference }) => inference.matches(name) && !/^(?:19|20)\d\d$/.test(name))
  );
}

/** If the file is one object, as many APIs return it: the member with an array of objects. */
function memberWithRecords({ firstRecords: [only, second], isComplete }: Scan): string | undefined {
  if (only === undefined || second !== undefined || !isComplete) return undefined;
  return membersOf(only.text ?? '')?.find(([, value]) => /^\[\s*\{/.test(value))?.[0];
}
