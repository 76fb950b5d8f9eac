/** What a person asks of an import, and what of it concerns reading and planning. */
import { UsageError } from '../remote/outcome.js';
import type { FileFormat } from './format.js';
import { parseTypes, type PlanOptions } from './plan.js';
import type { SourceOptions } from './source.js';
import type { DateOrder } from './timestamps.js';

export interface ImportOptions {
  table: string;
  create?: boolean;
  addColumns?: boolean;
  types?: string;
  skip?: string;
  keepNames?: boolean;
  format?: FileFormat;
  delimiter?: string;
  quotes: boolean;
  escape?: string;
  columns?: string;
  skipLines: number;
  encoding?: string;
  null?: readonly string[];
  decimal: '.' | ',';
  thousands?: string;
  dates?: DateOrder;
  sample?: number;
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

/** @throws UsageError */
export function readingIn(options: ImportOptions): SourceOptions {
  const { format, delimiter, quotes: hasQuotes, escape, columns, skipLines, encoding, null: nulls = [] } = options;
  const { decimal, thousands, dates } = options;
  if (thousands === decimal) {
    throw new UsageError(`--thousands and --decimal are both "${decimal}"`, 'As in 1.234,5: --decimal , --thousands .');
  }
  return {
    hasQuotes,
    ...(escape === undefined ? {} : { escape }),
    skipLines,
    nulls,
    decimal,
    ...(encoding === undefined ? {} : { encoding }),
    ...(format === undefined ? {} : { format }),
    ...(delimiter === undefined ? {} : { delimiter }),
    ...(columns === undefined ? {} : { columns: listIn(columns) }),
    ...(thousands === undefined ? {} : { thousands }),
    ...(dates === undefined ? {} : { dates }),
  };
}

export const planIn = ({ types, skip, keepNames = false }: ImportOptions): PlanOptions => ({
  types: types === undefined ? new Map<string, never>() : parseTypes(types),
  skip: new Set(listIn(skip)),
  keepNames,
});
