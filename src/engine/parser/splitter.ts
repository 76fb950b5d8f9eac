/**
 * Splits the caller's SQL text into statements by Postgres's own grammar, and rejects those that are not allowed in
 * a request (contract C13.3, C13.7). Reasons: docs/decisions/0006-splitting-sql.md.
 */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { unstorable } from '../../contract/column-types.js';
import type { FreesSpace } from './frees-space.js';
import { type ParsingRequest, ParserPool } from './parser-pool.js';
import type { RejectedKind } from './parser-worker.js';
import { leadingKeyword } from './keywords.js';
import type { ReaderEffect } from './reader-effect.js';

export interface SplitStatement {
  readonly text: string;
  /** Characters (code points) before this statement in the caller's text. */
  readonly offset: number;
  /** How it frees disk space; null: it does not, or this was not requested. */
  readonly frees: FreesSpace | null;
}

interface SplitOptions {
  /** Parse even a lone statement, to determine `frees`. */
  readonly tellsFreed?: boolean;
  /** The field of the request that holds the text, for messages. */
  readonly field?: string;
  /** What is said of statements that are not allowed. Default: what the requests of free SQL can do instead. */
  readonly rejections?: typeof REJECTION_MESSAGES;
}

/** A lone statement with another first word is never rejected, so it needs no parser. */
const MAY_BE_REJECTED = new Set(
  'ABORT BEGIN COMMIT COPY END LISTEN PREPARE RELEASE ROLLBACK SAVEPOINT START UNLISTEN'.split(' '),
);

export const REJECTION_MESSAGES: Readonly<Record<RejectedKind, string>> = {
  transaction_control:
    'One request is one transaction: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and the like are not allowed. ' +
    'Send several statements in one request; they take effect together or not at all.',
  copy_in:
    'COPY … FROM STDIN is not allowed: a request carries no data for it. ' +
    'Insert records with POST /api/cdp/data/{table_name}, or use INSERT.',
  copy_out: 'COPY … TO STDOUT is not allowed. Send the query itself, with "Accept: text/csv" for CSV.',
  listen: 'LISTEN and UNLISTEN need a session, and a session ends with its request. Poll with a query instead.',
};

/** Shared by all projects. Its worker threads start when they are needed. */
export class Splitter {
  private readonly parsers = new ParserPool();

  /**
   * The statements of `text` in order, at least one and at most `LIMITS.statementsPerRequest`; empty ones are dropped.
   * A lone statement is the whole text, untouched. So is a text that the grammar rejects: Postgres itself then reports
   * the error.
   * @param requester waits if the text has to be parsed
   * @throws EngineError payload_too_large; invalid_request (no statement, too many, U+0000 or lone surrogates, too
   * complex to be parsed); statement_not_allowed, overloaded
   */
  async split(
    text: string,
    requester: ParsingRequest,
    { tellsFreed = false, field = '"sql"', rejections = REJECTION_MESSAGES }: SplitOptions = {},
  ): Promise<SplitStatement[]> {
    rejectTooLong(text, field);
    rejectUnstorable(text, field);
    const whole = { text, offset: 0, frees: null };
    const keyword = leadingKeyword(text);
    if (keyword === null) throw noStatement(field);
    if (!tellsFreed && !mayHoldSeveral(text) && !MAY_BE_REJECTED.has(keyword)) return [whole];

    const parsed = await this.parsers.parse(text, requester);
    if (parsed.outcome !== 'statements') return [whole];
    const { statements, count } = parsed;
    if (count === 0) throw noStatement(field);
    if (count > LIMITS.statementsPerRequest) throw tooMany(count);
    statements.forEach(({ rejected }, i) => {
      if (rejected === null) return;
      const place = count > 1 ? `Statement ${i + 1} of ${count}: ` : '';
      throw new EngineError('statement_not_allowed', place + rejections[rejected]);
    });
    const [only] = statements;
    if (count === 1 && only !== undefined) return [{ ...whole, frees: only.frees }];
    return statements.map(({ text, offset, frees }) => ({ text, offset, frees }));
  }

  /**
   * The effects of a text's statements on a reader's session.
   * @returns null for a text that the grammar rejects
   * @throws EngineError overloaded, invalid_request (too many statements, too complex)
   */
  async readerEffects(text: string, requester: ParsingRequest): Promise<ReaderEffect[] | null> {
    const parsed = await this.parsers.parse(text, requester);
    if (parsed.outcome !== 'statements') return null;
    if (parsed.count > LIMITS.statementsPerRequest) throw tooMany(parsed.count);
    return parsed.statements.map(({ readerEffect }) => readerEffect);
  }

  /** Ends the worker threads; running and later calls fail. */
  close(): Promise<void> {
    return this.parsers.close();
  }
}

function rejectTooLong(text: string, field: string): void {
  if (Buffer.byteLength(text) > LIMITS.sqlBytes) {
    throw new EngineError('payload_too_large', `${field} is larger than ${LIMITS.sqlBytes} bytes`);
  }
}

/** Postgres's text holds no U+0000, and a lone surrogate has no UTF-8. */
function rejectUnstorable(text: string, field: string): void {
  if (unstorable(text) !== undefined) {
    throw new EngineError(
      'invalid_request',
      `${field} contains U+0000 or a lone surrogate, which Postgres text cannot hold`,
    );
  }
}

/**
 * Whether anything but semicolons and Postgres's white space follows the first semicolon, even one inside a string. If
 * not, the text cannot contain a second statement, however the text before it is read.
 */
export function mayHoldSeveral(text: string): boolean {
  const first = text.indexOf(';');
  return first !== -1 && /[^ \t\n\r\f\v;]/.test(text.slice(first));
}

function tooMany(count: number): EngineError {
  return new EngineError(
    'invalid_request',
    `The SQL text contains ${count} statements; a request allows at most ${LIMITS.statementsPerRequest}`,
  );
}

function noStatement(field: string): EngineError {
  return new EngineError('invalid_request', `${field} contains no statement: only white space, comments or semicolons`);
}
