/** From files and a table to a plan: what is sent where, and what must be made before. */
import { createHash } from 'node:crypto';
import { open, stat } from 'node:fs/promises';
import type { CreateTable } from '../../client/client.js';
import type { ColumnType } from '../../contract/column-types.js';
import { LIMITS } from '../../contract/limits.js';
import type { Table } from '../../contract/wire/tables.js';
import { UsageError } from '../remote/outcome.js';
import type { Format } from './format.js';
import { sizeOf } from './input.js';
import { membersOf, textOf } from './json-members.js';
import { type Mapping, planColumns, type PlanOptions } from './plan.js';
import { type FileRecord, openSource, type Source, type SourceOptions } from './source.js';
import { type Field, survey, type Survey } from './survey.js';

/** One file as it was when the import began. */
export interface PlannedFile {
  path: string;
  /** What its content is told by; null for what can be read but once. */
  identity: string | null;
  format: Format;
  mappings: Mapping[];
}

export interface ImportPlan {
  files: PlannedFile[];
  reading: SourceOptions;
}

/** Size, time of the last change, and a hash of the beginning; null for what can be read but once. @throws UsageError */
export async function identityOf(path: string): Promise<string | null> {
  if ((await sizeOf(path)) === null) return null;
  const { size, mtimeMs } = await stat(path);
  const handle = await open(path);
  try {
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(64 * 1024), position: 0 });
    const beginning = createHash('sha256').update(buffer.subarray(0, bytesRead)).digest('hex');
    return `${size} ${mtimeMs} ${beginning}`;
  } finally {
    await handle.close();
  }
}

/** @throws UsageError where the file is not what it was when the import was begun */
export async function refuseChanged(path: string, identity: string | null): Promise<void> {
  if ((await identityOf(path)) === identity) return;
  throw new UsageError(
    `${path} has changed since the import was begun`,
    'Begin anew with --restart; rows that are stored stay',
  );
}

export interface Prepared {
  plan: ImportPlan;
  /** Some records of each file. */
  first: readonly (readonly FileRecord[])[];
  /** Of each file that can be read but once, as it goes on; of others undefined. */
  opened: readonly (Source | undefined)[];
  /** What a person should look at. */
  warnings: readonly string[];
}

/** Where all columns are there already: enough to see which ones the file means. */
const SAMPLE = 10_000;

/** @param sample records to look at; undefined: all, and types from all where columns are to be made from them */
export async function prepare(
  paths: readonly string[],
  reading: SourceOptions,
  table: Table | undefined,
  options: PlanOptions & { addColumns: boolean; sample: number | undefined },
): Promise<Prepared> {
  const files: PlannedFile[] = [];
  const first: (readonly FileRecord[])[] = [];
  const opened: (Source | undefined)[] = [];
  const warnings: string[] = [];
  const most = options.sample ?? (table === undefined || options.addColumns ? Infinity : SAMPLE);
  for (const path of paths) {
    const identity = await identityOf(path);
    const source = await openSource(path, reading);
    const label = source.input.path;
    const found = await survey(source, reading, most, options.sample === undefined);
    refuseNoFields(label, path, found, table);
    refuseOtherHead(label, found);
    if (source.heads !== undefined && reading.columns === undefined && isLikeARecord(found.fields)) {
      warnings.push(
        `${label}: the first line was taken for names, and looks like a record. If it is one: --columns a,b,c`,
      );
    }
    const around = source.heads === undefined ? memberWithRecords(found) : undefined;
    if (around !== undefined) {
      warnings.push(
        `${label}: it is one record. If the records are those in ${JSON.stringify(around)}: jq -c '.[${JSON.stringify(around)}][]' ${path} | cdp import - …`,
      );
    }
    files.push({ path, identity, format: source.format, mappings: planColumns(found, table, options) });
    first.push(found.first);
    opened.push(found.records === undefined ? undefined : { ...source, records: found.records });
  }
  const plan = { files: widened(files), reading };
  const count = (table?.columns.length ?? 1) + missingColumns(plan, table).length - 1;
  if (count > LIMITS.columnsPerTable) {
    throw new UsageError(
      `The table would have ${count} columns, and ${LIMITS.columnsPerTable} is the most`,
      'Leave some out (--skip a,b), or keep what belongs together in one JSON value',
    );
  }
  return { plan, first, opened, warnings };
}

/** @throws UsageError where nothing is a record; no records at all are none too many for a table that is there */
function refuseNoFields(
  label: string,
  path: string,
  { fields, first, isWhole }: Survey,
  table: Table | undefined,
): void {
  if (fields.length > 0) return;
  const [record] = first;
  if (record === undefined && isWhole) {
    if (table !== undefined) return;
    throw new UsageError(`${label} has no records, so nothing says which columns the table would have`);
  }
  const hint = record?.text?.startsWith('[')
    ? `They are arrays; as CSV: jq -r '.[] | @csv' ${path} | cdp import - …`
    : 'A record looks like {"a": 1}';
  throw new UsageError(`${label}: no record is a JSON object`, hint);
}

/** @throws UsageError where most records would be refused, since what was taken for the head is none of theirs */
function refuseOtherHead(label: string, { fields, shape }: Survey): void {
  if (shape === undefined) return;
  throw new UsageError(
    `${label}: most records have ${shape.fields} fields, as in line ${shape.line}, and the head ${fields.length}`,
    `Is line ${shape.line} the head? --skip-lines ${shape.line - 1}. Is there none? --columns names the fields`,
  );
}

/** The member that holds an array of objects, where the file is one object: many an API answers so. */
function memberWithRecords({ first: [only, second], isWhole }: Survey): string | undefined {
  if (only === undefined || second !== undefined || !isWhole) return undefined;
  return membersOf(only.text ?? '')?.find(([, node]) => /^\[\s*\{/.test(textOf(node)))?.[0];
}

/** Whether every value of the first line could stand below itself. Years are names, too. */
function isLikeARecord(fields: readonly Field[]): boolean {
  const typed = fields.filter(({ guess }) => !guess.isEmpty && guess.type !== 'TEXT');
  return typed.length > 0 && typed.every(({ head, guess }) => guess.takes(head) && !/^(?:19|20)\d\d$/.test(head));
}

/** A column that several files have gets one type that holds all their values. */
function widened(files: readonly PlannedFile[]): PlannedFile[] {
  const isJson = files.every(({ format }) => format.kind !== 'delimited');
  const byColumn = new Map<string, Mapping[]>();
  for (const mapping of files.flatMap(({ mappings }) => mappings)) {
    if (mapping.column === null || mapping.type === null) continue;
    byColumn.set(mapping.column, [...(byColumn.get(mapping.column) ?? []), mapping]);
  }
  const types = new Map([...byColumn].map(([column, mappings]) => [column, typeForAll(mappings, isJson)]));
  return files.map((file) => ({
    ...file,
    mappings: file.mappings.map((mapping) =>
      mapping.column === null ? mapping : { ...mapping, type: types.get(mapping.column) ?? 'TEXT' },
    ),
  }));
}

function typeForAll(mappings: readonly Mapping[], isJson: boolean): string {
  const [first = 'TEXT', ...others] = new Set(mappings.map(({ type }) => type ?? 'TEXT'));
  if (others.length === 0) return first;
  const isNumber = mappings.every(({ type, isDouble }) => type === 'FLOAT' || (type === 'INTEGER' && isDouble));
  if (isNumber) return 'FLOAT';
  return isJson && [first, ...others].includes('JSONB') ? 'JSONB' : 'TEXT';
}

/** The columns that the files need and the table lacks, each once. */
export function missingColumns({ files }: ImportPlan, table: Table | undefined): { name: string; type: ColumnType }[] {
  const existing = new Set(['id', ...(table?.columns.map(({ name }) => name) ?? [])]);
  const missing = new Map<string, ColumnType>();
  for (const { column, type } of files.flatMap(({ mappings }) => mappings)) {
    if (column !== null && !existing.has(column)) missing.set(column, type as ColumnType);
  }
  return [...missing].map(([name, type]) => ({ name, type }));
}

/** The call that makes the table. */
export const tableFor = (name: string, plan: ImportPlan): CreateTable => ({
  table_name: name,
  columns: missingColumns(plan, undefined),
});

const DELIMITER_NAMES: Readonly<Record<string, string>> = {
  ',': 'commas',
  ';': 'semicolons',
  '\t': 'tabs',
  '|': 'bars',
};

export function formatName({ kind, delimiter }: Format): string {
  if (kind === 'ndjson') return 'NDJSON';
  if (kind === 'json') return 'JSON';
  return `text delimited by ${DELIMITER_NAMES[delimiter] ?? JSON.stringify(delimiter)}`;
}
