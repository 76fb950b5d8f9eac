/**
 * Rules for free SQL: statements outside a transaction, changes of the encoding, and positions of errors in the
 * caller's text.
 */
import { isUtf8 } from 'node:buffer';
import { EngineError } from '../../contract/errors.js';
import { type Described, fixed, PostgresError, type Session, SQLSTATE } from '../../pg/index.js';
import { toEngineError } from '../../tenancy/engine-error.js';
import type { QuotaImpact } from '../limits/quota.js';
import { leadingKeyword } from '../parser/keywords.js';
import type { SplitStatement } from '../parser/splitter.js';

/**
 * First words of the statements that Postgres runs only outside a transaction. The project's code may raise the same
 * SQLSTATE, but not from one of these.
 */
const OUTSIDE_A_TRANSACTION = new Set(['ALTER', 'CLUSTER', 'CREATE', 'DISCARD', 'DROP', 'REINDEX', 'VACUUM']);

export const needsNoTransaction = (error: unknown, { text }: SplitStatement): boolean =>
  error instanceof EngineError &&
  error.postgres?.sqlstate === SQLSTATE.ACTIVE_SQL_TRANSACTION &&
  OUTSIDE_A_TRANSACTION.has(leadingKeyword(text) ?? '');

export const noPlaceForKey = (cause: unknown) =>
  new EngineError(
    'statement_not_allowed',
    'Postgres runs this statement only outside a transaction, so an Idempotency-Key cannot be stored with it',
    { cause, hint: 'Send it without an Idempotency-Key.' },
  );

export const cannotRehearse = (cause: unknown) =>
  new EngineError(
    'statement_not_allowed',
    'Postgres runs this statement only outside a transaction, so it cannot be rehearsed',
    { cause },
  );

/** Statements that write new files for tables or indexes before removing the old ones. */
const REWRITING = new Set(['CLUSTER', 'REINDEX', 'VACUUM']);

export const impactOf = (statements: readonly SplitStatement[]): QuotaImpact =>
  statements.every(({ text }) => REWRITING.has(leadingKeyword(text) ?? '')) ? 'rewrites' : 'writes';

/**
 * Restores the encoding in which Postgres sends text, if a statement has changed it. The rows of that statement may be
 * in either encoding, so they are refused.
 */
export async function restoreEncoding(session: Session, { columns }: Described): Promise<void> {
  if (session.clientEncoding === 'UTF8') return;
  if (columns !== null && columns.length > 0) throw otherEncoding();
  await session.run([fixed(`SET client_encoding = 'UTF8'`)]);
}

/**
 * The same for a statement that restored the encoding before its end, which Postgres does not report.
 * @param rows whole rows, as they would be sent
 * @throws EngineError statement_not_allowed
 */
export function rejectOtherEncoding(rows: Buffer): void {
  if (!isUtf8(rows)) throw otherEncoding();
}

const otherEncoding = () =>
  new EngineError('statement_not_allowed', 'A statement that returns rows must not change client_encoding', {
    hint: 'Responses are always UTF-8; do not change the setting.',
  });

/** The error's context if Postgres cannot read a parameter's value as one of its type. */
const OF_PARAMETER = /^unnamed portal parameter (\$\d+)/;

/** Turns Postgres's position within the statement into one within the caller's whole text, and names a wrong parameter. */
export function located(error: unknown, { offset }: { offset: number }): unknown {
  if (!(error instanceof PostgresError)) return error;
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
