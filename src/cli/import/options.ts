/** What a person asks of an import, as the command line names it. */
import type { ColumnType } from '../../contract/column-types.js';
import type { ReadOptions } from './source.js';

export interface ImportOptions extends ReadOptions {
  table: string;
  /** Create the table if it does not exist. */
  create?: boolean;
  addColumns?: boolean;
  /** By the name of the field or of the column. */
  types?: ReadonlyMap<string, ColumnType>;
  skip?: readonly string[];
  keepNames?: boolean;
  /** Records to infer types from; default: all, if columns are to be created. */
  sample?: number;
  dryRun?: boolean;
  resume?: boolean;
  /** Resume even if keys may have expired. */
  resumeLate?: boolean;
  restart?: boolean;
  /** File for refused records; default: next to the first file. */
  refused?: string;
  /** Fail with the first refused record. */
  strict?: boolean;
  /** Batches in flight at a time. */
  concurrency: number;
  json?: boolean;
  profile?: string;
}

/** Those that say how files are read, which the journal keeps. */
export function readingOf(options: ImportOptions): ReadOptions {
  const { table, create, addColumns, types, skip, keepNames, sample, dryRun, ...others } = options;
  const { resume, resumeLate, restart, refused, strict, concurrency, json, profile, ...reading } = others;
  return reading;
}
