/**
 * Rows are sent in the encoding that Postgres uses for their text, which must be UTF-8. A statement that changes
 * `client_encoding` may not return rows.
 */
import { isUtf8 } from 'node:buffer';
import { EngineError } from '../../contract/errors.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { fixed, type StatementDescription } from '../../pg/index.js';

/**
 * Restores the encoding if a statement has changed it. The rows of that statement may be in either encoding, so they are
 * refused.
 * @throws EngineError statement_not_allowed
 */
export async function restoreEncoding(db: QueryRunner, { columns }: StatementDescription): Promise<void> {
  if (db.clientEncoding === 'UTF8') return;
  if (columns !== null && columns.length > 0) throw otherEncoding();
  await db.run([fixed(`SET client_encoding = 'UTF8'`)]);
}

/**
 * Refuses rows of a statement that restored the encoding before its end, which Postgres does not report.
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
