/**
 * Classifies the texts that a reader sends in a session. The first word decides for nearly all queries; the parser
 * decides for the rest.
 */
import { EngineError } from '../../contract/errors.js';
import { NEVER_ABORTED } from '../../db/backend-request.js';
import { WaitBudget } from '../../db/wait-budget.js';
import { leadingKeyword } from './keywords.js';
import type { ReaderEffect } from './reader-effect.js';
import { mayHoldSeveral, type Splitter } from './splitter.js';

/** A lone statement with this first word cannot end a transaction, begin one or change its mode. */
const READING = new Set(
  (
    'SELECT WITH VALUES TABLE SHOW FETCH MOVE DECLARE CLOSE EXECUTE DEALLOCATE INSERT UPDATE DELETE MERGE LISTEN ' +
    'UNLISTEN NOTIFY SAVEPOINT RELEASE LOCK'
  ).split(' '),
);

/**
 * The first words of all other statements (Postgres manual, part VI). A text with any other first word is not a
 * statement.
 */
const OTHERS = new Set(
  (
    'ABORT ALTER ANALYSE ANALYZE BEGIN CALL CHECKPOINT CLUSTER COMMENT COMMIT COPY CREATE DISCARD DO DROP END EXPLAIN GRANT IMPORT LOAD ' +
    'PREPARE REASSIGN REFRESH REINDEX REPACK RESET REVOKE ROLLBACK SECURITY SET START TRUNCATE VACUUM WAIT'
  ).split(' '),
);

/** Transaction commands as drivers send them. On longer texts these expressions would take quadratic time. */
const MAX_COMMAND_CHARACTERS = 100;
const BEGINNING = /^\s*(?:begin|start)(?:\s+(?:work|transaction))?(?:\s+read\s+only)?\s*;?\s*$/i;
const ENDING = /^\s*(?:commit|end|rollback|abort)(?:\s+(?:work|transaction))?\s*;?\s*$/i;

/** Why a text is not run, with Postgres's SQLSTATE for that. */
export interface Rejection {
  readonly sqlstate: string;
  readonly message: string;
  readonly hint?: string;
}

export type Classification = 'reads' | 'ends' | Rejection;

const READ_ONLY: Rejection = {
  sqlstate: '25006',
  message: 'the user reader cannot run this statement: its session is read-only',
  hint: 'Connect as the user writer, with a token that has the scope sql:write.',
};
const NOT_LAST: Rejection = {
  sqlstate: '25006',
  message: 'the user reader must send COMMIT, ROLLBACK and DISCARD as the last statement of a message',
};
const NOT_PARSED: Rejection = {
  sqlstate: '42601',
  message: 'the statements cannot be parsed, so the user reader cannot run them',
};
const NOT_READABLE: Rejection = {
  sqlstate: '0A000',
  message: 'the user reader needs client_encoding UTF8 and standard_conforming_strings on for this statement',
};

/**
 * The effect that a text may have on a reader's session.
 * @param projectId the texts of a project are parsed one at a time
 * @param isPlain the server reads the text by the rules that the parser knows: UTF-8, standard_conforming_strings
 */
export const classify = (
  splitter: Splitter,
  projectId: string,
  text: string,
  isPlain: boolean,
): Classification | Promise<Classification> =>
  classifyByFirstWord(text) ?? classifyByParser(splitter, projectId, text, isPlain);

async function classifyByParser(
  splitter: Splitter,
  projectId: string,
  text: string,
  isPlain: boolean,
): Promise<Classification> {
  if (!isPlain) return NOT_READABLE;
  try {
    const requester = { projectId, waitBudget: new WaitBudget(WAIT_MS), signal: NEVER_ABORTED };
    const statements = await splitter.readerEffects(text, requester);
    return statements === null ? NOT_PARSED : overall(statements);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return { sqlstate: error.code === 'overloaded' ? '53000' : '54001', message: error.message };
  }
}

const WAIT_MS = 30_000;

/** null: the parser has to decide. */
export function classifyByFirstWord(text: string): Classification | null {
  if (mayHoldSeveral(text)) return null;
  const keyword = leadingKeyword(text);
  const isShort = text.length <= MAX_COMMAND_CHARACTERS;
  if (keyword === null || READING.has(keyword) || (isShort && BEGINNING.test(text))) return 'reads';
  // Postgres itself reports the error best.
  if (keyword !== '' && !OTHERS.has(keyword)) return 'reads';
  return isShort && ENDING.test(text) ? 'ends' : null;
}

function overall(statements: readonly ReaderEffect[]): Classification {
  if (!statements.every((statement) => statement === 'reads' || statement === 'ends')) return READ_ONLY;
  const end = statements.indexOf('ends');
  if (end < 0) return 'reads';
  return end === statements.length - 1 ? 'ends' : NOT_LAST;
}
