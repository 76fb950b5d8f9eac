/** The options of an import, as on the command line. */
import type { StoreOptions } from '../../client/insert.js';
import type { PlanOptions } from '../../import/import-plan.js';
import { UsageError } from '../exit.js';
import { conflictOf, type ConflictOptions } from '../remote/remote-options.js';

export interface ImportOptions extends PlanOptions, ConflictOptions {
  table: string;
  /** Create the table if it does not exist. */
  create?: boolean;
  /** Only show what would be sent. */
  preview?: boolean;
  resume?: boolean;
  /** Resume even if keys may have expired. */
  resumeLate?: boolean;
  restart?: boolean;
  /** File for refused records; default: next to the first file. */
  refused?: string;
  /** Fail with the first refused record. */
  strict?: boolean;
  /** Keep refused records in the service. */
  quarantine?: boolean;
  /** Roll everything back. */
  dryRun?: boolean;
  json?: boolean;
  profile?: string;
}

/** The options for storing records. The journal keeps them: a repeated stream must be the same request. */
export const storingOf = ({ quarantine, dryRun, ...conflict }: ImportOptions): StoreOptions => ({
  ...conflictOf(conflict),
  ...(quarantine === undefined ? {} : { onError: 'quarantine' }),
  ...(dryRun === undefined ? {} : { dryRun: true }),
});

const FLAGS = {
  onConflict: '--on-conflict',
  resolution: '--resolution',
  version: '--version-column',
  unchanged: '--skip-unchanged',
  mergeJson: '--merge-json',
  unknown: '--unknown',
  onError: '--quarantine',
} as const;

/** Those that take no value. */
const SWITCHES: ReadonlySet<string> = new Set(['unchanged', 'mergeJson', 'onError']);

const NAMES = Object.keys(FLAGS) as (keyof typeof FLAGS)[];

/** @throws UsageError if an option differs from when the import was started; an omitted one stays as it was */
export function requireSameStoring(options: ImportOptions, earlier: StoreOptions): void {
  const storing = storingOf(options);
  for (const name of NAMES) {
    if (storing[name] === undefined || String(storing[name]) === String(earlier[name])) continue;
    const before = earlier[name] === undefined ? 'without it' : `with ${[earlier[name]].flat().join(',')}`;
    throw new UsageError(
      `${FLAGS[name]} cannot change: the import was started ${before}`,
      `Resume it without ${FLAGS[name]}, or start again with --restart`,
    );
  }
}

/** StoreOptions as options on the command line. */
export const storingFlags = (storing: StoreOptions): string[] =>
  NAMES.flatMap((name) => {
    const value = storing[name];
    if (value === undefined) return [];
    return SWITCHES.has(name) ? [FLAGS[name]] : [FLAGS[name], [value].flat().join(',')];
  });
