/** From files and a table to a plan: what is sent where, and what must be made before. */
import { createHash } from 'node:crypto';
import { open, stat } from 'node:fs/promises';
import type { CreateTable } from '../../client/client.js';
import type { ColumnType } from '../../contract/column-types.js';
import type { Table } from '../../contract/wire.js';
import { UsageError } from '../remote/outcome.js';
import type { Format } from './format.js';
import { STDIN } from './input.js';
import { type Mapping, planColumns, type PlanOptions } from './plan.js';
import { openSource, type Source, type SourceOptions } from './source.js';

/** One file as it was when the import began. */
export interface PlannedFile {
  path: string;
  /** What its content is told by; null for standard input. */
  identity: string | null;
  format: Format;
  mappings: Mapping[];
}

export interface ImportPlan {
  files: PlannedFile[];
  reading: SourceOptions;
}

/** Size, time of the last change, and a hash of the beginning. */
export async function identityOf(path: string): Promise<string | null> {
  if (path === STDIN) return null;
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

/** @returns the sources too, of which standard input cannot be opened twice */
export async function prepare(
  paths: readonly string[],
  reading: SourceOptions,
  table: Table | undefined,
  options: PlanOptions,
): Promise<{ plan: ImportPlan; sources: Source[] }> {
  const sources: Source[] = [];
  const files: PlannedFile[] = [];
  for (const path of paths) {
    const identity = await identityOf(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') throw new UsageError(`There is no file ${path}`);
      throw error;
    });
    const source = await openSource(path, reading);
    sources.push(source);
    files.push({ path, identity, format: source.format, mappings: planColumns(source.fields, table, options) });
  }
  return { plan: { files: widened(files), reading }, sources };
}

/** A column that several files have gets one type that holds all their values. */
function widened(files: readonly PlannedFile[]): PlannedFile[] {
  const types = new Map<string, string>();
  for (const { column, type } of files.flatMap(({ mappings }) => mappings)) {
    if (column === null) continue;
    const before = types.get(column) ?? type;
    const isNumber = [before, type].every((each) => each === 'INTEGER' || each === 'FLOAT');
    types.set(column, before === type ? type : isNumber ? 'FLOAT' : 'TEXT');
  }
  return files.map((file) => ({
    ...file,
    mappings: file.mappings.map((mapping) => ({
      ...mapping,
      type: mapping.column === null ? mapping.type : (types.get(mapping.column) ?? mapping.type),
    })),
  }));
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
  if (kind === 'json') return 'a JSON array';
  return `text delimited by ${DELIMITER_NAMES[delimiter] ?? JSON.stringify(delimiter)}`;
}
