/**
 * What the engine asks of one logged-in connection, in the extended query protocol. Everything a request needs in one go is
 * written in one piece and ends in one Sync; rows reach the caller as the bytes of their DataRow message.
 */
import { ROLLBACK, type Statement } from '../sql.js';
import { Connection } from './connection.js';
import type { MessageHandler, RowTaker } from './framing.js';
import {
  BACKEND,
  bind,
  DESCRIBE_STATEMENT,
  execute,
  type FieldDescription,
  parse,
  readParameterOids,
  readRowDescription,
  readTag,
  runUnnamed,
  SYNC,
} from './messages.js';
import { PreparedStatements } from './prepared-statements.js';
import { resetMessages } from './reset.js';
import { copyMessages, type RowsIn } from './rows-in.js';
import { type TextResult, textResults } from './text-results.js';

/** What Postgres says of a statement before it runs. */
export interface Described {
  /** Type oids of `$1`, `$2`, … */
  parameterOids: number[];
  /** null where the statement returns no rows. */
  columns: FieldDescription[] | null;
}

/** How one Execute ended. */
interface Executed {
  /** Command tag; null where the row limit ended it and the portal is suspended. */
  tag: string | null;
}

const ignore = () => {};

export class Session extends Connection {
  private readonly prepared = new PreparedStatements();

  /**
   * Runs statements in order in one round trip. The first error skips the rest, as the protocol does.
   * @throws PostgresError of the failing statement, ConnectionLost
   */
  async run(statements: readonly Statement[]): Promise<TextResult[]> {
    const results: TextResult[] = [];
    await this.exchange([...runUnnamed(statements), SYNC], textResults(results));
    return results;
  }

  /**
   * The same with a reset of the session behind it. Whether that failed is for whoever uses the session next.
   * @throws what {@link run} throws, where one of the statements was not answered
   */
  async runAndReset(statements: readonly Statement[]): Promise<TextResult[]> {
    const results: TextResult[] = [];
    try {
      await this.sendWithReset(Buffer.concat([...runUnnamed(statements), resetMessages(), SYNC]), textResults(results));
    } catch (error) {
      if (results.length < statements.length) throw error;
    }
    return results.slice(0, statements.length);
  }

  /** Messages up to a Sync, with those of a reset as the last before it. @throws PostgresError, ConnectionLost */
  sendWithReset(bytes: Buffer, onMessage: MessageHandler, takeRows: RowTaker | null = null): Promise<void> {
    this.prepared.clear();
    return this.exchange([bytes], onMessage, { takeRows, cleans: true });
  }

  /**
   * Messages up to a Sync that provably leave the session as it is.
   * @param parse the Parse message of their one statement, which they need not hold where {@link hasParsed} says so
   * @throws PostgresError, ConnectionLost
   */
  sendHarmless(bytes: Buffer, onMessage: MessageHandler, takeRows: RowTaker, parse: string | null): Promise<void> {
    return this.exchange([bytes], onMessage, { takeRows, cleans: this.isReset, parse });
  }

  /**
   * Rows between other statements, in one round trip and one implicit transaction: the Sync at the end commits all, or
   * nothing. The statements are prepared once for each session. COPY's messages go out without waiting for
   * CopyInResponse; where the command or one before it fails, the server throws them away (Postgres manual 54.2.3).
   * @throws PostgresError, ConnectionLost
   */
  async store(rows: RowsIn, before: readonly Statement[], after: readonly Statement[]): Promise<void> {
    try {
      await this.exchange(this.storing(rows, before, after), ignore, { copies: 'copy' in rows });
    } catch (error) {
      const texts = [...before, ...after].map(({ text }) => text);
      const closing = this.prepared.forget('copy' in rows ? rows.copy : rows.insert, ...texts);
      // What went wrong before this is what the caller has to know.
      if (!this.closed) await this.exchange([...closing, SYNC], ignore).catch(ignore);
      throw error;
    }
  }

  private storing(rows: RowsIn, before: readonly Statement[], after: readonly Statement[]): Uint8Array[] {
    const messages: Uint8Array[] = [];
    for (const statement of before) this.prepared.run(statement, messages);
    if ('copy' in rows) {
      this.prepared.run({ text: rows.copy, params: [] }, messages);
      messages.push(...copyMessages(rows.data));
    } else this.prepared.runRow(rows.insert, rows.row, messages);
    for (const statement of after) this.prepared.run(statement, messages);
    messages.push(SYNC);
    return messages;
  }

  /** Whatever statements left behind in the session goes away: an open transaction, and prepared statements too. */
  async reset(): Promise<void> {
    const rollback = this.transaction === 'I' ? [] : runUnnamed([ROLLBACK]);
    await this.sendWithReset(Buffer.concat([...rollback, resetMessages(), SYNC]), ignore);
  }

  /** One statement, its rows. */
  async query(statement: Statement): Promise<(string | null)[][]> {
    const [result] = await this.run([statement]);
    return result?.rows ?? [];
  }

  /**
   * Runs `before`, then parses and describes a statement, in one round trip.
   * @throws PostgresError of whichever failed, ConnectionLost
   */
  async prepare(text: string, before: readonly Statement[] = []): Promise<Described> {
    let described: Described = { parameterOids: [], columns: null };
    await this.exchange([...runUnnamed(before), parse(text), DESCRIBE_STATEMENT, SYNC], (type, buffer, start, end) => {
      if (type === BACKEND.parameterDescription) {
        described = { parameterOids: readParameterOids(buffer, start, end), columns: null };
      } else if (type === BACKEND.rowDescription) described.columns = readRowDescription(buffer, start, end);
    });
    return described;
  }

  /**
   * Runs what {@link prepare} left, up to `maxRows` rows (0: all).
   * @throws PostgresError, ConnectionLost, MessageTooLarge
   */
  execute(
    params: readonly (string | null)[],
    formats: readonly number[],
    maxRows: number,
    takeRows: RowTaker,
  ): Promise<Executed> {
    return this.fetch([bind(params, formats), execute(maxRows), SYNC], takeRows);
  }

  /** Goes on with a suspended portal, inside the same transaction. */
  resume(maxRows: number, takeRows: RowTaker): Promise<Executed> {
    return this.fetch([execute(maxRows), SYNC], takeRows);
  }

  private async fetch(parts: readonly Buffer[], takeRows: RowTaker): Promise<Executed> {
    let tag: string | null = null;
    const onMessage: MessageHandler = (type, buffer, start, end) => {
      if (type === BACKEND.commandComplete) tag = readTag(buffer, start, end);
      else if (type === BACKEND.emptyQuery) tag = '';
    };
    await this.exchange(parts, onMessage, { takeRows });
    return { tag };
  }
}
