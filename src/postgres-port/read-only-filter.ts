/**
 * Keeps the session of a client that has logged in as `reader` READ ONLY. A session begins with
 * default_transaction_read_only = on, and Postgres does not let a transaction become READ WRITE after its first query.
 * So a write would need another transaction that begins READ WRITE, or a statement that changes the mode by itself.
 * Therefore:
 *
 * 1. Each SQL text is classified before it is passed on. If it may change the mode, a text that raises an error
 * replaces it.
 * 2. A group of messages (a Query, or extended messages up to a Sync) contains one transaction. After the message that
 * ends it, no message that would begin another one is passed on.
 * 3. A group waits until Postgres has answered the previous one (ReadyForQuery). Before that, Postgres reports a
 * changed default (ParameterStatus), and then the session ends.
 *
 * docs/decisions/0038-postgres-port.md explains why this is sufficient.
 */
import type { Classification, Rejection } from '../engine/parser/classify-reader-text.js';
import { SessionError } from '../engine/sessions/session-error.js';
import { literal } from '../pg/index.js';
import { BACKEND, Framing, FRONTEND, MESSAGE_HEADER, parse, readStrings, simpleQuery } from '../pg/protocol.js';
import { EndingNames } from './ending-names.js';

/** Maximum size of a message: a text, or the parameters of a statement. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/** Encodings in which the service reads a text exactly as Postgres does. */
const READABLE: readonly (string | undefined)[] = ['UTF8', 'SQL_ASCII'];

type Classify = (text: string, isPlain: boolean) => Classification | Promise<Classification>;

interface Message {
  readonly type: number;
  /** Including the header. */
  readonly bytes: Buffer;
}

/** The current group of messages. */
interface Group {
  /** The first message was passed on. */
  hasBegun: boolean;
  /** The last message was passed on, and ReadyForQuery has not arrived. */
  isComplete: boolean;
  /** The message that ends the transaction was passed on. */
  hasEndedTransaction: boolean;
  /** Postgres has answered with an error. */
  hasFailed: boolean;
  /** One of its texts was replaced by an error of the filter. */
  isRefused: boolean;
}

const newGroup = (): Group => ({
  hasBegun: false,
  isComplete: false,
  hasEndedTransaction: false,
  hasFailed: false,
  isRefused: false,
});

export class ReadOnlyFilter {
  private readonly framing: Framing;
  /** Messages from the client that have not been passed on. */
  private readonly incoming: Message[] = [];
  /** Messages to Postgres that will be written together. */
  private outgoing: Buffer[] = [];
  private group = newGroup();
  private readonly endingNames = new EndingNames();
  /** Settings of the session, as reported by Postgres. */
  private readonly reported: Map<string, string>;
  private isPassingOn = false;
  private isPaused = false;

  /**
   * @param write sends bytes to Postgres
   * @param fail ends the session
   * @param pause stops (true) or resumes (false) reading from the client
   */
  constructor(
    reported: ReadonlyMap<string, string>,
    private readonly classify: Classify,
    private readonly write: (bytes: Buffer) => void,
    private readonly fail: (error: SessionError) => void,
    private readonly pause: (isPaused: boolean) => void,
  ) {
    this.reported = new Map(reported);
    this.framing = new Framing(
      (type, buffer, start, end) =>
        this.incoming.push({ type, bytes: Buffer.from(buffer.subarray(start - MESSAGE_HEADER, end)) }),
      (_type, length) => length <= MAX_MESSAGE_BYTES,
    );
  }

  /** Types of messages for {@link onServerMessage}. */
  static readonly SERVER_MESSAGES: ReadonlySet<number> = new Set([
    BACKEND.parameterStatus,
    BACKEND.error,
    BACKEND.readyForQuery,
  ]);

  /** Processes bytes from the client. */
  onClientData(chunk: Buffer): void {
    try {
      if (!this.framing.feed(chunk)) return this.fail(tooLong());
    } catch {
      return this.fail(malformed());
    }
    void this.passOn();
    this.applyBackpressure();
  }

  /** @param body of a long message only the beginning */
  onServerMessage(type: number, body: Buffer): void {
    if (type === BACKEND.error) this.group.hasFailed = true;
    else if (type === BACKEND.parameterStatus) {
      const [name = '', value = ''] = body.toString().split('\0', 2);
      this.reported.set(name, value);
    } else if (type === BACKEND.readyForQuery) this.endGroup();
  }

  /** The context of an error from the filter would show its code, so it becomes a field that clients ignore. */
  hideContext(chunk: Buffer): void {
    const at = this.group.isRefused ? chunk.indexOf(CONTEXT) : -1;
    if (at >= 0) chunk[at + 1] = UNKNOWN_FIELD;
  }

  private endGroup(): void {
    if (this.reported.get('default_transaction_read_only') !== 'on') return this.fail(switched());
    try {
      this.endingNames.endGroup(this.group.hasFailed);
    } catch (error) {
      return this.fail(error as SessionError);
    }
    this.group = newGroup();
    void this.passOn();
  }

  /** Passes on messages in order, up to the end of a group. */
  private async passOn(): Promise<void> {
    if (this.isPassingOn) return;
    this.isPassingOn = true;
    try {
      while (!this.group.isComplete) {
        const message = this.incoming.shift();
        if (message === undefined) break;
        const passed = this.pass(message);
        if (passed !== undefined) await passed;
      }
      if (this.outgoing.length > 0) this.write(Buffer.concat(this.outgoing));
    } catch (error) {
      this.incoming.length = 0;
      this.fail(error instanceof SessionError ? error : malformed());
    } finally {
      this.outgoing = [];
      this.isPassingOn = false;
    }
    this.applyBackpressure();
  }

  private applyBackpressure(): void {
    const isPaused = this.incoming.length > 0;
    if (isPaused !== this.isPaused) this.pause(isPaused);
    this.isPaused = isPaused;
  }

  /**
   * @throws SessionError, which ends the session
   * @throws Error if the message is malformed
   */
  private pass({ type, bytes }: Message): Promise<void> | void {
    const body = bytes.subarray(MESSAGE_HEADER);
    switch (type) {
      case FRONTEND.terminate:
        return this.forward(bytes);
      case FRONTEND.query:
        this.beginSimple();
        return this.passText(textOf(body), bytes, (rejection) => simpleQuery(raising(rejection)));
      case FRONTEND.functionCall:
        this.beginSimple();
        return this.replace(simpleQuery(raising(NO_CALLS)));
      case FRONTEND.sync:
        this.group.isComplete = true;
        return this.forward(bytes);
      case FRONTEND.copyData:
      case FRONTEND.copyDone:
      case FRONTEND.copyFail:
        // Postgres ignores these outside a COPY, which a reader cannot begin.
        return;
      case FRONTEND.close:
      case FRONTEND.flush:
        this.group.hasBegun = true;
        return this.forward(bytes);
      default:
        return this.passExtended(type, body, bytes);
    }
  }

  /** A Query or a FunctionCall is a group by itself. */
  private beginSimple(): void {
    if (this.group.hasBegun) throw malformed();
    this.group.hasBegun = this.group.isComplete = true;
  }

  /** Each of these begins a transaction if there is none: Parse, Bind and Describe evaluate constants, too. */
  private passExtended(type: number, body: Buffer, bytes: Buffer): Promise<void> | void {
    if (this.group.hasEndedTransaction) throw notLast();
    this.group.hasBegun = true;
    if (type === FRONTEND.parse) {
      const [name = '', text = ''] = readStrings(body, 2);
      const replacement = (rejection: Rejection) => parse(raising(rejection), name);
      return this.passText(text, bytes, replacement, (ends) => this.endingNames.parse(name, ends));
    }
    if (type === FRONTEND.bind) {
      const [portal = '', statement = ''] = readStrings(body, 2);
      this.endingNames.bind(portal, statement);
    } else if (type === FRONTEND.execute) {
      const [portal = ''] = readStrings(body, 1);
      this.group.hasEndedTransaction = this.endingNames.execute(portal);
    } else if (type !== FRONTEND.describe) throw malformed();
    this.forward(bytes);
  }

  /**
   * @param replacement for a refused text: it raises the refusal, so that Postgres itself handles the error
   * @param note called with whether the text ends a transaction
   */
  private passText(
    text: string,
    bytes: Buffer,
    replacement: (rejection: Rejection) => Buffer,
    note: (ends: boolean) => void = () => {},
  ): Promise<void> | void {
    const isPlain =
      READABLE.includes(this.reported.get('client_encoding')) &&
      this.reported.get('standard_conforming_strings') === 'on';
    const pass = (classification: Classification) => {
      note(classification === 'ends');
      if (typeof classification === 'string') this.forward(bytes);
      else this.replace(replacement(classification));
    };
    const classified = this.classify(text, isPlain);
    return classified instanceof Promise ? classified.then(pass) : pass(classified);
  }

  private forward(bytes: Buffer): void {
    this.outgoing.push(bytes);
  }

  private replace(bytes: Buffer): void {
    this.group.isRefused = true;
    this.forward(bytes);
  }
}

/**
 * The text of a message, which ends with the message's zero byte.
 * @throws Error if it does not
 */
function textOf(body: Buffer): string {
  if (body.indexOf(0) !== body.length - 1) throw new Error('A message of the client is malformed');
  return body.toString('utf8', 0, body.length - 1);
}

function raising({ sqlstate, message, hint }: Rejection): string {
  const text = (value: string) => literal(value.replaceAll('$', '')).text;
  const withHint = hint === undefined ? '' : `, HINT = ${text(hint)}`;
  return `DO LANGUAGE plpgsql $cdp$ BEGIN RAISE EXCEPTION USING ERRCODE = '${sqlstate}', MESSAGE = ${text(message)}${withHint}; END $cdp$`;
}

/** The field W of an ErrorResponse that {@link raising} causes. */
const CONTEXT = Buffer.from('\0WPL/pgSQL function inline_code_block line 1 at RAISE\0');

/** Postgres has no such field, and clients ignore unknown ones (Postgres manual, Error and Notice Message Fields). */
const UNKNOWN_FIELD = 0x77; // 'w'

const NO_CALLS: Rejection = { sqlstate: '0A000', message: 'the user reader cannot send FunctionCall messages' };

const malformed = () => new SessionError('08P01', 'invalid or unexpected message', 'malformed');

const tooLong = () =>
  new SessionError('54000', `messages of the user reader are limited to ${MAX_MESSAGE_BYTES} bytes`, 'malformed');

const switched = () =>
  new SessionError(
    '25006',
    'terminating connection: the session of the user reader was switched to READ WRITE',
    'permission_denied',
  );

const notLast = () =>
  new SessionError(
    '25006',
    'terminating connection: after COMMIT or ROLLBACK the user reader must send Sync',
    'permission_denied',
  );
