/**
 * A request of one statement in one write: its transaction, the statement, the end of the transaction and the reset of
 * the session, up to one Sync. Whoever sends one has to know the statement's columns, since the formats of the rows are
 * asked for before Postgres has described them.
 */
import type { Statement } from '../sql.js';
import { type MessageHandler, messageSize, type RowTaker } from './framing.js';
import { BACKEND, bind, DESCRIBE_PORTAL, execute, readTag, runUnnamed, SYNC } from './messages.js';
import { RESET, writeSeed } from './reset.js';
import type { Session } from './session.js';

/** What stands around the statement, as bytes that are built once. */
export class Frame {
  readonly head: Buffer;
  /** Up to the Sync. */
  readonly tail: Buffer;
  /** Where the reset begins in the tail; null: there is none. */
  readonly resetAt: number | null;
  /** Statements before the caller's own. */
  readonly before: number;

  /** @param end of the transaction; null: the statement provably leaves nothing in the session, and stands alone */
  constructor(before: readonly Statement[], end: Statement | null) {
    const ending = Buffer.concat(end === null ? [] : runUnnamed([end]));
    this.head = Buffer.concat(runUnnamed(before));
    this.tail = Buffer.concat(end === null ? [SYNC] : [ending, RESET, SYNC]);
    this.resetAt = end === null ? null : ending.length;
    this.before = before.length;
  }
}

/** A statement as messages, those without values as Latin-1. */
export interface WholeStatement {
  /** Its Parse message. */
  readonly parse: string;
  /** Where it stands alone: what Postgres makes of its text holds for as long as nothing else is parsed. */
  readonly staysParsed: boolean;
}

/**
 * The values of a statement that has been parsed.
 * @param formats one for each column. Where that is not how many there are, Postgres refuses the statement before it
 * runs (08P01); but a single one it takes for all columns
 */
export const bound = (params: readonly (string | null)[], formats: readonly number[]): Buffer =>
  Buffer.concat([bind(params, formats), DESCRIBE_PORTAL]);

export interface WholeSink {
  /** Gets the body of RowDescription, before the first row; not called for a statement that returns no rows. */
  describe(buffer: Buffer, start: number, end: number): void;
  readonly takeRows: RowTaker;
}

/** How far it came. */
export interface WholeOutcome {
  /** Of the statement; null where the row limit ended it, or an error. */
  readonly tag: string | null;
  /** What ended it before the end of its transaction was seen. */
  readonly error: Error | null;
  /** The statement itself had come to its end. */
  readonly statementEnded: boolean;
}

/**
 * @param values of {@link bound}, as bytes or Latin-1
 * @param maxRows 0: all. What is past it is not fetched, and the transaction ends all the same
 */
export function runWhole(
  session: Session,
  frame: Frame,
  { parse, staysParsed }: WholeStatement,
  values: Buffer | string,
  maxRows: number,
  sink: WholeSink,
): Promise<WholeOutcome> {
  const answer = new WholeAnswer(frame.before, sink);
  const { onMessage, takeRows } = answer;
  const isParsed = staysParsed && session.hasParsed(parse);
  const bytes = wholeBytes(frame, isParsed ? '' : parse, values, maxRows);
  const sent =
    frame.resetAt === null
      ? session.sendHarmless(bytes, onMessage, takeRows, staysParsed ? parse : null)
      : session.sendWithReset(bytes, onMessage, takeRows);
  return sent.then(
    () => answer.outcome(null),
    (error: Error) => answer.outcome(error),
  );
}

class WholeAnswer {
  private ended = 0;
  private tag: string | null = null;

  /** @param before statements before the caller's own */
  constructor(
    private readonly before: number,
    private readonly sink: WholeSink,
  ) {}

  readonly onMessage: MessageHandler = (type, buffer, start, end) => {
    if (type === BACKEND.commandComplete) {
      if (this.ended === this.before) this.tag = readTag(buffer, start, end);
      this.ended++;
    } else if (type === BACKEND.rowDescription) this.sink.describe(buffer, start, end);
    else if (type === BACKEND.portalSuspended) this.ended++;
    else if (type === BACKEND.emptyQuery) {
      this.tag = '';
      this.ended++;
    }
  };

  readonly takeRows: RowTaker = (buffer, start, end) =>
    this.ended === this.before ? this.sink.takeRows(buffer, start, end) : start + messageSize(buffer, start);

  /** Behind the end of the transaction it is only the session that is not as it should be. */
  outcome(error: Error | null): WholeOutcome {
    const { tag, ended, before } = this;
    if (error !== null && ended < before + 2) return { tag, error, statementEnded: ended > before };
    return { tag, error: null, statementEnded: true };
  }
}

const EXECUTE = execute();

function wholeBytes({ head, tail, resetAt }: Frame, parse: string, values: Buffer | string, maxRows: number): Buffer {
  const valuesAt = head.length + parse.length;
  const executeAt = valuesAt + values.length;
  const tailAt = executeAt + EXECUTE.length;
  const bytes = Buffer.allocUnsafe(tailAt + tail.length);
  bytes.set(head, 0);
  bytes.write(parse, head.length, 'latin1');
  if (typeof values === 'string') bytes.write(values, valuesAt, 'latin1');
  else bytes.set(values, valuesAt);
  bytes.set(EXECUTE, executeAt);
  bytes.writeInt32BE(maxRows, tailAt - 4);
  bytes.set(tail, tailAt);
  if (resetAt !== null) writeSeed(bytes, tailAt + resetAt);
  return bytes;
}
