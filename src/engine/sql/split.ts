/**
 * Splits the caller's SQL text into statements by Postgres's own grammar, and refuses those that have no place in a
 * request (contract section 7). Reasons: docs/decisions/0006-splitting-sql.md.
 */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { refuseText } from '../batch/text.js';
import { leadingKeyword } from './leading-keyword.js';
import { type Asker, ParserThreads } from './parser-threads.js';
import type { Removal } from './removal.js';
import type { RefusedKind } from './split-worker.js';

export interface SplitStatement {
  readonly text: string;
  /** Characters (code points) of the caller's text before this statement. */
  readonly offset: number;
  /** How it gives room back; null: it does not, or nobody asked. */
  readonly removal: Removal | null;
}

/** Statements that start otherwise are never refused, so that alone they need no parser. */
const MAY_BE_REFUSED = new Set(
  'ABORT BEGIN COMMIT COPY END LISTEN PREPARE RELEASE ROLLBACK SAVEPOINT START UNLISTEN'.split(' '),
);

const REFUSALS: Record<RefusedKind, string> = {
  transaction_control:
    'One request is one transaction: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and the like have no place in it. ' +
    'Send several statements in one request; they take effect together or not at all.',
  copy_in:
    'COPY … FROM STDIN has no data to read in a request. ' +
    'Insert records with POST /api/cdp/data/{table_name}, or use INSERT.',
  copy_out: 'COPY … TO STDOUT has no place in a request. Send the query itself, with "Accept: text/csv" for CSV.',
  listen: 'LISTEN and UNLISTEN need a session, and a session ends with its request. Ask again with a query instead.',
};

/** Shared by all projects of a service. Its threads start when they are needed. */
export class Splitter {
  private readonly threads = new ParserThreads();

  /**
   * The statements of `text` in order, at least one and at most `LIMITS.statementsPerRequest`; empty ones are dropped. A
   * lone statement is the whole text, untouched. So is a text that the grammar refuses: Postgres itself then tells the
   * error. `asker` is who waits when parsing has to; with `tellRemovals` even a lone statement is parsed, for its `removal`.
   *
   * Fails with `invalid_request` (no statement, too many, U+0000 or lone surrogates, a text on which the parser gives way),
   * `statement_not_allowed`, or `overloaded`.
   */
  async split(text: string, asker: Asker, tellRemovals = false): Promise<SplitStatement[]> {
    refuseUnstorable(text);
    const whole = { text, offset: 0, removal: null };
    const keyword = leadingKeyword(text);
    if (keyword === null) throw noStatement();
    if (!tellRemovals && !mayHoldSeveral(text) && !MAY_BE_REFUSED.has(keyword)) return [whole];

    const parsed = await this.threads.parse(text, asker);
    if (parsed.outcome !== 'statements') return [whole];
    const { statements, count } = parsed;
    if (count === 0) throw noStatement();
    if (count > LIMITS.statementsPerRequest) {
      const most = LIMITS.statementsPerRequest;
      throw new EngineError(
        'invalid_request',
        `The SQL text holds ${count} statements; a request takes at most ${most}.`,
      );
    }
    statements.forEach(({ refused }, i) => {
      if (refused === null) return;
      const place = count > 1 ? `Statement ${i + 1} of ${count}: ` : '';
      throw new EngineError('statement_not_allowed', place + REFUSALS[refused]);
    });
    const [only] = statements;
    if (count === 1 && only !== undefined) return [{ ...whole, removal: only.removal }];
    return statements.map(({ text, offset, removal }) => ({ text, offset, removal }));
  }

  /** Ends the parser's threads; texts that are still being split fail. A later call starts them anew. */
  close(): Promise<void> {
    return this.threads.close();
  }
}

/** Postgres's 1-based error position within a statement, as a 1-based position in the caller's text, in code points. */
export function positionInText(statement: SplitStatement, position: number): number {
  return statement.offset + position;
}

/** Postgres's text holds no U+0000, and a lone surrogate has no UTF-8. */
function refuseUnstorable(text: string): void {
  if (refuseText(text) !== undefined) {
    throw new EngineError(
      'invalid_request',
      '"sql" holds U+0000 or a lone surrogate, which Postgres text cannot hold.',
    );
  }
}

/**
 * Whether anything but semicolons and Postgres's white space follows the first semicolon, wherever that stands (inside a
 * string, say). If not, no second statement can follow, whatever the text before it means.
 */
function mayHoldSeveral(text: string): boolean {
  const first = text.indexOf(';');
  return first !== -1 && /[^ \t\n\r\f\v;]/.test(text.slice(first));
}

function noStatement(): EngineError {
  return new EngineError('invalid_request', '"sql" holds no statement: only white space, comments or semicolons.');
}
