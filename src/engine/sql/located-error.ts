/** Errors of Postgres about a statement, with their place in what the caller sent. */
import { EngineError } from '../../contract/errors.js';
import { PostgresError } from '../../pg/index.js';
import { toEngineError } from '../../tenancy/engine-error.js';
import type { SplitStatement } from '../parser/splitter.js';

/** The error's context if Postgres cannot read a parameter's value as one of its type. */
const OF_PARAMETER = /^unnamed portal parameter (\$\d+)/;

/** Turns Postgres's position within the statement into one within the caller's whole text, and names a wrong parameter. */
export function located(error: unknown, { offset }: Pick<SplitStatement, 'offset'>): unknown {
  // The end of the connection is not an error of the statement.
  if (!(error instanceof PostgresError) || error.isFatal) return error;
  const translated = toEngineError(error);
  const { position, where = '' } = error.fields;
  const parameter = OF_PARAMETER.exec(where)?.[1];
  // Both count from 1, in code points.
  if (position !== undefined && translated instanceof EngineError && translated.postgres !== undefined) {
    translated.postgres.position = offset + position;
  }
  if (parameter !== undefined && translated instanceof EngineError) {
    translated.hint ??= `This is the value of ${parameter} in "params".`;
  }
  return translated;
}
