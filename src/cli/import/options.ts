/** What a person asks of an import, and what of it concerns reading and planning. */
import type { FileFormat } from './format.js';
import { parseTypes, type PlanOptions } from './plan.js';
import type { SourceOptions } from './source.js';

export interface ImportOptions {
  table: string;
  create?: boolean;
  addColumns?: boolean;
  types?: string;
  skip?: string;
  keepNames?: boolean;
  format?: FileFormat;
  delimiter?: string;
  columns?: string;
  encoding: string;
  null?: string;
  sample: number;
  dryRun?: boolean;
  resume?: boolean;
  resumeLate?: boolean;
  restart?: boolean;
  refused?: string;
  strict?: boolean;
  concurrency: number;
  json?: boolean;
  profile?: string;
}

const listIn = (list: string | undefined): string[] =>
  list === undefined ? [] : list.split(',').map((each) => each.trim());

export function readingIn({
  format,
  delimiter: told,
  encoding,
  columns,
  null: mark,
  sample,
}: ImportOptions): SourceOptions {
  return {
    encoding,
    sample,
    ...(format === undefined ? {} : { format }),
    ...(told === undefined ? {} : { delimiter: told }),
    ...(columns === undefined ? {} : { columns: listIn(columns) }),
    ...(mark === undefined ? {} : { null: mark }),
  };
}

export const planIn = ({ types, skip, keepNames = false }: ImportOptions): PlanOptions => ({
  types: types === undefined ? new Map<string, never>() : parseTypes(types),
  skip: new Set(listIn(skip)),
  keepNames,
});
