/**
 * A session of one role in one database, in the extended query protocol. Everything up to a Sync is written at once.
 * Rows arrive in text format, or as the bytes of their DataRow messages.
 */
import type { LoginOptions } from './address.js';
import {
  BACKEND,
  bind,
  COPY_DONE,
  copyFail,
  copyMessages,
  dataMessages,
  DESCRIBE_PORTAL,
  DESCRIBE_STATEMENT,
  execute,
  EXECUTE_ALL,
  type FieldDescription,
  parse,
  readCommandTag,
  readParameterOids,
  readRowDescription,
  readTag,
  readTextRow,
  runUnnamed,
  simpleQuery,
  SYNC,
} from './messages.js';
import { Connection, type ConnectionLimits } from './connection.js';
import { CopiedRows } from './copy-out.js';
import { CommitNotReplicated, ConnectionLost } from './errors.js';
import type { MessageHandler, RowHandler } from './framing.js';
import { logIn } from './handshake.js';
import { PreparedStatements } from './prepared-statements.js';
import { fixed, ROLLBACK, type Statement } from './sql-tag.js';

/** One step of a pipeline: a statement, or a COPY … FROM STDIN with its data. */
export interface Step extends Statement {
  readonly data?: readonly Uint8Array[];
  /** The format of the data, which contains only rows. Default: text. */
  readonly format?: 'binary';
}

export interface PipelineOptions {
  /** Keeps the statements prepared in the session, for pipelines that use the same texts. */
  readonly prepared?: boolean;
  /**
   * Ends with a reset of the session; the last step must end the transaction. A failed reset is not reported, but then
   * the session is not {@link Connection.isClean}.
   */
  readonly reset?: boolean;
  /** If the response takes longer, the session is destroyed. */
  readonly timeoutMs?: number;
}

/** A row in text format. */
export type Row = (string | null)[];

export interface Result {
  /** Command tag, for instance `INSERT 0 250`. */
  readonly tag: string;
  readonly rows: Row[];
}

export interface Outcome {
  /** Results of the completed steps, in order. Their changes may not be committed. */
  readonly results: Result[];
  /** The error that ended the pipeline early. */
  readonly error: Error | null;
}

/** What Postgres knows about a statement before it runs. */
export interface StatementDescription {
  /** Type oids of `$1`, `$2`, … */
  parameterOids: number[];
  /** null if the statement returns no rows. */
  columns: FieldDescription[] | null;
}

const DISCARD_ALL = fixed('DISCARD ALL');

/**
 * DISCARD ALL keeps the seed of random(). Without a new one, this request could determine the next one's random
 * numbers.
 */
const resetMessages = (): Buffer =>
  Buffer.concat([runUnnamed(DISCARD_ALL), runUnnamed(fixed(`SET seed = ${Math.random().toFixed(15)}`))]);

const ignore = () => {};

export class Session extends Connection {
  private readonly prepared = new PreparedStatements();

  /**
   * Logs in.
   * @param signal aborts the login
   * @throws PostgresError, ConnectionLost
   */
  static async connect(options: LoginOptions & ConnectionLimits, signal?: AbortSignal): Promise<Session> {
    return new Session(await logIn(options, signal), options);
  }

  /**
   * Runs steps in order in one round trip. Without BEGIN they are one transaction, which ends with the last (Postgres
   * manual, Pipelining). After the first error, the server skips the rest. The data of a COPY is sent without waiting
   * for CopyInResponse; if the command or an earlier step fails, the server discards it.
   * @returns the outcome; never rejects
   */
  async pipeline(steps: readonly Step[], options: PipelineOptions = {}): Promise<Outcome> {
    const { prepared = false, reset = false, timeoutMs } = options;
    const messages = steps.flatMap((step) => this.messagesOf(step, prepared));
    if (reset) {
      messages.push(resetMessages());
      this.prepared.clear();
    }
    messages.push(SYNC);
    const responses = new Responses(steps.length);
    try {
      const copies = steps.some(({ data }) => data !== undefined);
      await this.request(messages, responses.onMessage, { copies, endsClean: reset, timeoutMs });
      return { results: responses.results, error: null };
    } catch (error) {
      if (prepared) await this.forget(steps);
      const { results } = responses;
      const failedInReset = reset && results.length === steps.length && !(error instanceof CommitNotReplicated);
      return { results, error: failedInReset ? null : (error as Error) };
    }
  }

  /**
   * Like {@link pipeline}, but returns only the results.
   * @throws PostgresError of the failed statement, ConnectionLost
   */
  async run(steps: readonly Step[], options?: PipelineOptions): Promise<Result[]> {
    const { results, error } = await this.pipeline(steps, options);
    if (error !== null) throw error;
    return results;
  }

  /**
   * Runs a statement and returns its rows.
   * @throws PostgresError, ConnectionLost
   */
  async query(statement: Statement, options?: PipelineOptions): Promise<Row[]> {
    const [result] = await this.run([statement], options);
    return result?.rows ?? [];
  }

  /**
   * Runs a statement and returns its first row; empty if there is none.
   * @throws PostgresError, ConnectionLost
   */
  async row(statement: Statement, options?: PipelineOptions): Promise<Row> {
    const [first = []] = await this.query(statement, options);
    return first;
  }

  /**
   * Runs a statement.
   * @returns the number of rows in its command tag; 0 if it has none
   * @throws PostgresError, ConnectionLost
   */
  async rowCount(statement: Statement, options?: PipelineOptions): Promise<number> {
    const [result] = await this.run([statement], options);
    return readCommandTag(result?.tag ?? '').count ?? 0;
  }

  /**
   * Runs COPY … TO STDOUT. The server waits for the reader of the rows.
   * @returns the rows in parts that end with a row; a reader that stops early destroys the session
   * @throws PostgresError, ConnectionLost, MessageTooLarge
   */
  async *copyOut(statement: Statement): AsyncGenerator<Buffer, void, void> {
    const rows = new CopiedRows(this);
    const onMessage: MessageHandler = (type, buffer, start, end) => {
      if (type === BACKEND.copyData) rows.add(buffer, start, end);
    };
    let hasEnded = false;
    const end = (error: Error | null) => {
      hasEnded = true;
      rows.end(error);
    };
    // Whoever reads the rows decides how long this takes.
    this.request([runUnnamed(statement), SYNC], onMessage, { timeoutMs: 0 }).then(() => end(null), end);
    try {
      yield* rows;
    } finally {
      if (!hasEnded) this.destroy(new ConnectionLost('Nothing reads the rows of COPY'));
    }
  }

  /**
   * Runs COPY … FROM STDIN.
   * @param data read only as fast as the server takes it
   * @returns the number of rows
   * @throws PostgresError, ConnectionLost; what `data` throws; no row is stored then
   */
  async copyIn(statement: Statement, data: AsyncIterable<Uint8Array>): Promise<number> {
    const responses = new Responses(1);
    const done = this.request([runUnnamed(statement)], responses.onMessage, { copies: true });
    done.catch(ignore);
    try {
      for await (const part of data) if (!(await this.more(dataMessages(part)))) break;
    } catch (error) {
      await this.more([copyFail('There is no more data'), SYNC]);
      await done.catch(ignore);
      throw error;
    }
    await this.more([COPY_DONE, SYNC]);
    await done;
    return readCommandTag(responses.results[0]?.tag ?? '').count ?? 0;
  }

  /**
   * Runs any number of statements in one text by a simple query (Postgres manual, Simple Query), in one transaction
   * unless they say otherwise. Ignores their rows.
   * @throws PostgresError, ConnectionLost
   */
  async script(text: string): Promise<void> {
    await this.request([simpleQuery(text)], ignore);
  }

  /** Removes everything that statements left in the session, including an open transaction and prepared statements. */
  async reset(): Promise<void> {
    const rollback = this.inTransaction ? [runUnnamed(ROLLBACK)] : [];
    this.prepared.clear();
    await this.request([...rollback, resetMessages(), SYNC], ignore, { endsClean: true });
  }

  /**
   * Runs `before`, then parses and describes a statement, in one round trip.
   * @throws PostgresError of the failed statement, ConnectionLost
   */
  async describe(text: string, before: readonly Statement[] = []): Promise<StatementDescription> {
    let described: StatementDescription = { parameterOids: [], columns: null };
    const messages = [...before.map(runUnnamed), parse(text), DESCRIBE_STATEMENT, SYNC];
    await this.request(messages, (type, buffer, start, end) => {
      if (type === BACKEND.parameterDescription) {
        described = { parameterOids: readParameterOids(buffer, start, end), columns: null };
      } else if (type === BACKEND.rowDescription) described.columns = readRowDescription(buffer, start, end);
    });
    return described;
  }

  /**
   * Runs the statement that {@link describe} has parsed.
   * @param maxRows the portal is suspended after this many rows; 0: all rows
   * @returns the command tag; null if the portal is suspended
   * @throws PostgresError, ConnectionLost, MessageTooLarge
   */
  fetch(
    params: readonly (string | null)[],
    formats: readonly number[],
    maxRows: number,
    takeRows: RowHandler,
  ): Promise<string | null> {
    return this.fetchRows([bind(params, formats), execute(maxRows), SYNC], takeRows);
  }

  /** Continues a suspended portal in the same transaction. */
  fetchMore(maxRows: number, takeRows: RowHandler): Promise<string | null> {
    return this.fetchRows([execute(maxRows), SYNC], takeRows);
  }

  /**
   * Parses, describes and runs a statement without parameters in one round trip, with rows in text format. Only for a
   * statement that provably leaves nothing in the session: a clean session stays clean.
   * @param describe called before the first row
   * @returns the command tag
   * @throws PostgresError, ConnectionLost
   */
  async fetchAtOnce(
    text: string,
    describe: (columns: FieldDescription[]) => void,
    takeRows: RowHandler,
  ): Promise<string> {
    let tag = '';
    const onMessage: MessageHandler = (type, buffer, start, end) => {
      if (type === BACKEND.rowDescription) describe(readRowDescription(buffer, start, end));
      else if (type === BACKEND.commandComplete) tag = readTag(buffer, start, end);
    };
    const messages = [parse(text), bind([]), DESCRIBE_PORTAL, EXECUTE_ALL, SYNC];
    await this.request(messages, onMessage, { takeRows, endsClean: this.isClean });
    return tag;
  }

  private async fetchRows(parts: readonly Buffer[], takeRows: RowHandler): Promise<string | null> {
    let tag: string | null = null;
    const onMessage: MessageHandler = (type, buffer, start, end) => {
      if (type === BACKEND.commandComplete) tag = readTag(buffer, start, end);
      else if (type === BACKEND.emptyQuery) tag = '';
    };
    await this.request(parts, onMessage, { takeRows });
    return tag;
  }

  /** A statement that is not prepared is unnamed, so it leaves nothing in the session. */
  private messagesOf(step: Step, prepared: boolean): Uint8Array[] {
    const run = prepared ? this.prepared.run(step) : [runUnnamed(step)];
    return step.data === undefined ? run : [...run, ...copyMessages(step.data, step.format === 'binary')];
  }

  /** After an error, it is unknown which statements the server has prepared. */
  private async forget(steps: readonly Step[]): Promise<void> {
    const closing = this.prepared.forget(...steps.map(({ text }) => text));
    // The caller gets the pipeline's error instead of this one.
    if (!this.closed) await this.request([...closing, SYNC], ignore).catch(ignore);
  }
}

/** Collects the results of a pipeline's steps, in their order. */
class Responses {
  readonly results: Result[] = [];
  private rows: Row[] = [];

  constructor(private readonly count: number) {}

  readonly onMessage: MessageHandler = (type, buffer, start, end) => {
    if (type === BACKEND.dataRow) this.rows.push(readTextRow(buffer, start, end));
    else if (type === BACKEND.commandComplete) this.noteTag(readTag(buffer, start, end));
    else if (type === BACKEND.emptyQuery) this.noteTag('');
  };

  /** Results after the last step belong to the reset. */
  private noteTag(tag: string): void {
    if (this.results.length < this.count) this.results.push({ tag, rows: this.rows });
    this.rows = [];
  }
}
