/** Which statements may go out in one write, their COMMIT included (docs/decisions/0024-one-write.md). */
import type { ResultColumn } from '../../postgres/results/columns.js';
import { isKept } from './known-statements.js';
import { leadingKeyword } from './leading-keyword.js';
import { visibleTokens } from './main-keyword.js';
import { mayChangeRights } from './rights.js';
import { MODIFYING } from './sql-result.js';
import { rewritesTables } from './statements.js';

/** Rows of an answer as JSON: a statement whose answers stay below is sent in one write. */
export const SMALL_ANSWER = 4 * 1024 * 1024;

/** Queries, by their first words. */
const QUERIES = new Set(['', 'SELECT', 'TABLE', 'VALUES', 'WITH']);

/** A statement that changes the encoding of its own rows would not be noticed (contract section 4). */
const MAY_CHANGE_ENCODING = /set_config|encoding/i;

/** The oids below are Postgres's own types, whose names are the same for good. */
const FIRST_OWN_OID = 16_384;

/**
 * Whether a statement may go out in one write, its COMMIT included, the next time: nothing has to be asked after it, and
 * where it returns rows, it does nothing that would have to be undone should these not be readable.
 */
export function fitsOneWrite(text: string, columns: readonly ResultColumn[] | null, answerBytes: number): boolean {
  // To go through the words of a long text would keep the event loop from others.
  if (!isKept(text, columns)) return false;
  if (columns === null) return !mayChangeRights(text) && !rewritesTables(text);
  if (answerBytes > SMALL_ANSWER || MAY_CHANGE_ENCODING.test(text)) return false;
  if (!QUERIES.has(leadingKeyword(text) ?? '') || columns.some(({ typeOid }) => typeOid >= FIRST_OWN_OID)) return false;
  for (const token of visibleTokens(text)) if (MODIFYING.has(token)) return false;
  return true;
}
