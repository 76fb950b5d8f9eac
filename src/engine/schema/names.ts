/** What tables and columns may be called (contract section 3). */
import { EngineError, type ErrorPlace } from '../../contract/errors.js';
import { NAME_PATTERN } from '../../contract/names.js';
import { cut } from '../../contract/message-text.js';

const PATTERN = new RegExp(NAME_PATTERN);

/** Columns that every Postgres table has beside its own (Postgres manual 5.6). */
const SYSTEM_COLUMNS = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']);

const isServiceName = (name: string) => name.toLowerCase().startsWith('_cdp_');

/** What is wrong with a name for a new table, or undefined. */
export function tableNameProblem(name: string): ErrorPlace | undefined {
  if (!PATTERN.test(name)) return invalid('table', name);
  if (isServiceName(name)) return reserved('table', name, 'names starting with _cdp_ belong to the service');
  return undefined;
}

/** What is wrong with a name for a new column, or undefined. Reserved names are so in any case. */
export function columnNameProblem(name: string): ErrorPlace | undefined {
  if (!PATTERN.test(name)) return invalid('column', name);
  const folded = name.toLowerCase();
  if (folded === 'id') return reserved('column', name, 'every table has its id column from the service');
  if (SYSTEM_COLUMNS.has(folded)) return reserved('column', name, 'Postgres has a system column of that name');
  if (isServiceName(name)) return reserved('column', name, 'names starting with _cdp_ belong to the service');
  return undefined;
}

/** @throws EngineError invalid_name or reserved_name */
export function checkName(problem: ErrorPlace | undefined): void {
  if (problem !== undefined) throw new EngineError(problem.error, problem.message);
}

/**
 * A name in a path. What can never be the name of a table made here is simply not found: free SQL may have made it,
 * but the API's rules keep it from being addressed.
 */
export const isName = (name: string): boolean => PATTERN.test(name);

const invalid = (kind: string, name: string): ErrorPlace => ({
  error: 'invalid_name',
  message: `${JSON.stringify(cut(name))} is not a name for a ${kind}: it must match ${NAME_PATTERN}`,
});

const reserved = (kind: string, name: string, why: string): ErrorPlace => ({
  error: 'reserved_name',
  message: `${JSON.stringify(name)} is not free as a name for a ${kind}: ${why}`,
});
