/**
 * Between a reader and Postgres: keeps its session READ ONLY (docs/decisions/0038-postgres-port.md).
 *
 * Its transactions begin READ ONLY. A new default would hold from the next transaction on; Postgres reports one before the
 * ReadyForQuery that ends a group of messages (a Query, or all up to a Sync). So the next group waits for that, a group holds no
 * second transaction, and no statement passes that changes the mode by itself.
 */
import type { Judgement, Refused } from '../engine/sessions/reader-text.js';
import { SessionError } from '../engine/sessions/session-error.js';
import { literal } from '../pg/index.js';
import { BACKEND, Framing, FRONTEND, MESSAGE_HEADER, parse, readStrings, simpleQuery } from '../pg/protocol.js';

/** Of one message: a text, or the parameters of a statement. */
const LONGEST_MESSAGE = 4 * 1024 * 1024;

/** Prepared statements and portals that end a transaction, and are remembered. */
const MOST_NAMES = 1_000;

/** Encodings in which the service reads a text just as Postgres does. */
const READABLE: readonly (string | undefined)[] = ['UTF8', 'SQL_ASCII'];

type Judge = (text: string, isPlain: boolean) => Judgement | Promise<Judgement>;

interface Message {
  readonly type: number;
  /** With its header. */
  readonly bytes: Buffer;
}

/** Names of what ends a transaction, when it is executed. */
interface Ending {
  readonly statements: Set<string>;
  readonly portals: Set<string>;
}

export class ReaderGate {
  private readonly framing: Framing;
  private readonly waiting: Message[] = [];
  /** Messages that may go, to be written at once. */
  private going: Buffer[] = [];
  /** A group has gone out, and its ReadyForQuery has not come. */
  private isAnswering = false;
  private isPumping = false;
  private isHolding = false;
  /** Messages of a group that has no Sync yet. */
  private isWithinGroup = false;
  /** The transaction of this group has ended. */
  private hasEnded = false;
  private hasFailed = false;
  private isRefusing = false;
  private ending: Ending = { statements: new Set(), portals: new Set() };
  /** As it was before this group: an error may have kept the group from changing it. */
  private endingBefore: Ending = this.ending;
  private readonly reported: Map<string, string>;

  /**
   * @param write to Postgres
   * @param fail ends the session
   * @param hold whether nothing more may come from the client
   */
  constructor(
    reported: ReadonlyMap<string, string>,
    private readonly judge: Judge,
    private readonly write: (bytes: Buffer) => void,
    private readonly fail: (error: SessionError) => void,
    private readonly hold: (isHolding: boolean) => void,
  ) {
    this.reported = new Map(reported);
    this.framing = new Framing(
      (type, buffer, start, end) =>
        this.waiting.push({ type, bytes: Buffer.from(buffer.subarray(start - MESSAGE_HEADER, end)) }),
      (_type, length) => length <= LONGEST_MESSAGE,
    );
  }

  /** Types of messages of Postgres that {@link hear} has to be told of. */
  static readonly HEARS: ReadonlySet<number> = new Set([BACKEND.parameterStatus, BACKEND.error, BACKEND.readyForQuery]);

  /** Bytes of the client. */
  take(chunk: Buffer): void {
    try {
      if (!this.framing.feed(chunk)) return this.fail(tooLong());
    } catch {
      return this.fail(malformed());
    }
    void this.pump();
    this.letFlow();
  }

  /** In the error by which Postgres refuses a text for the gate: its context is the service's, and so becomes a field that clients ignore. */
  hideContext(chunk: Buffer): void {
    const at = this.isRefusing ? chunk.indexOf(CONTEXT) : -1;
    if (at >= 0) chunk[at + 1] = UNKNOWN_FIELD;
  }

  /** A message of Postgres. */
  hear(type: number, body: Buffer): void {
    if (type === BACKEND.error) this.hasFailed = true;
    else if (type === BACKEND.parameterStatus) {
      // Of a long value only the beginning comes, which is none that the gate knows.
      const [name = '', value = ''] = body.toString().split('\0', 2);
      this.reported.set(name, value);
    } else if (type === BACKEND.readyForQuery) this.groupEnded();
  }

  private groupEnded(): void {
    if (this.reported.get('default_transaction_read_only') !== 'on') return this.fail(switched());
    if (this.hasFailed) {
      for (const name of this.endingBefore.statements) this.ending.statements.add(name);
      for (const name of this.endingBefore.portals) this.ending.portals.add(name);
    }
    const { statements, portals } = this.ending;
    if (statements.size + portals.size > MOST_NAMES) return this.fail(tooManyNames());
    this.endingBefore = { statements: new Set(statements), portals: new Set(portals) };
    this.isAnswering = this.isWithinGroup = this.hasEnded = this.hasFailed = this.isRefusing = false;
    void this.pump();
  }

  /** Passes on what may go now, in order. */
  private async pump(): Promise<void> {
    if (this.isPumping) return;
    this.isPumping = true;
    try {
      while (!this.isAnswering) {
        const message = this.waiting.shift();
        if (message === undefined) break;
        const passed = this.pass(message);
        if (passed !== undefined) await passed;
      }
      if (this.going.length > 0) this.write(Buffer.concat(this.going));
    } catch (error) {
      this.waiting.length = 0;
      this.fail(error instanceof SessionError ? error : malformed());
    } finally {
      this.going = [];
      this.isPumping = false;
    }
    this.letFlow();
  }

  private forward(bytes: Buffer): void {
    this.going.push(bytes);
  }

  private letFlow(): void {
    const isHolding = this.waiting.length > 0;
    if (isHolding !== this.isHolding) this.hold(isHolding);
    this.isHolding = isHolding;
  }

  /** @throws SessionError, which ends the session; Error if the message is malformed */
  private pass({ type, bytes }: Message): Promise<unknown> | void {
    const body = bytes.subarray(MESSAGE_HEADER);
    if (type === FRONTEND.terminate) return this.forward(bytes);
    if (type === FRONTEND.query || type === FRONTEND.functionCall) {
      if (this.isWithinGroup) throw malformed();
      this.isAnswering = true;
      if (type === FRONTEND.functionCall) return this.refuse(simpleQuery(raising(NO_CALLS)));
      return this.passText(textOf(body), bytes, (refused) => simpleQuery(raising(refused)));
    }
    if (type === FRONTEND.sync) {
      this.isAnswering = true;
      return this.forward(bytes);
    }
    // Outside of a COPY, which a reader cannot begin, Postgres ignores these.
    if (type === FRONTEND.copyData || type === FRONTEND.copyDone || type === FRONTEND.copyFail) return;
    // Parse, Bind and Describe too would begin another transaction, and evaluate constants in it.
    if (this.hasEnded && type !== FRONTEND.close && type !== FRONTEND.flush) throw notLast();
    this.isWithinGroup = true;
    if (type === FRONTEND.parse) return this.passParse(body, bytes);
    if (type === FRONTEND.bind) this.noteBind(body);
    else if (type === FRONTEND.execute) this.noteExecute(body);
    else if (type !== FRONTEND.describe && type !== FRONTEND.close && type !== FRONTEND.flush) throw malformed();
    this.forward(bytes);
  }

  private passParse(body: Buffer, bytes: Buffer): Promise<void> | void {
    const [name = '', text = ''] = readStrings(body, 2);
    requireNames(name);
    return this.passText(
      text,
      bytes,
      (refused) => parse(raising(refused), name),
      (judgement) => {
        if (judgement === 'ends') this.ending.statements.add(name);
        else this.ending.statements.delete(name);
      },
    );
  }

  /** A text that is refused becomes one that raises the refusal, so that Postgres itself deals with the error. */
  private passText(
    text: string,
    bytes: Buffer,
    instead: (refused: Refused) => Buffer,
    note: (judgement: Judgement) => void = () => {},
  ): Promise<void> | void {
    const isPlain =
      READABLE.includes(this.reported.get('client_encoding')) &&
      this.reported.get('standard_conforming_strings') === 'on';
    const judged = this.judge(text, isPlain);
    const pass = (judgement: Judgement) => {
      note(judgement);
      if (typeof judgement === 'string') this.forward(bytes);
      else this.refuse(instead(judgement));
    };
    return judged instanceof Promise ? judged.then(pass) : pass(judged);
  }

  private refuse(raising: Buffer): void {
    this.isRefusing = true;
    this.forward(raising);
  }

  private noteBind(body: Buffer): void {
    const [portal = '', statement = ''] = readStrings(body, 2);
    requireNames(portal, statement);
    if (this.ending.statements.has(statement)) this.ending.portals.add(portal);
    else this.ending.portals.delete(portal);
  }

  private noteExecute(body: Buffer): void {
    const [portal = ''] = readStrings(body, 1);
    requireNames(portal);
    this.hasEnded = this.ending.portals.has(portal);
  }
}

/** Postgres cuts longer ones at 63 bytes, and reads other characters by the encoding: two names may be one. */
const NAME = /^[\x01-\x7f]{0,63}$/;

/** @throws SessionError */
function requireNames(...names: string[]): void {
  if (!names.every((name) => NAME.test(name))) throw notName();
}

/** A zero byte ends it, and the message. @throws Error */
function textOf(body: Buffer): string {
  if (body.indexOf(0) !== body.length - 1) throw new Error('A message of the client is malformed');
  return body.toString('utf8', 0, body.length - 1);
}

function raising({ sqlstate, message, hint }: Refused): string {
  const quoted = (text: string) => literal(text.replaceAll('$', '')).text;
  const withHint = hint === undefined ? '' : `, HINT = ${quoted(hint)}`;
  return `DO LANGUAGE plpgsql $cdp$ BEGIN RAISE EXCEPTION USING ERRCODE = '${sqlstate}', MESSAGE = ${quoted(message)}${withHint}; END $cdp$`;
}

/** The field W of an ErrorResponse, as {@link raising} causes it. */
const CONTEXT = Buffer.from('\0WPL/pgSQL function inline_code_block line 1 at RAISE\0');

/** Postgres has no such field, and clients ignore those that they do not know (Postgres manual 54.8). */
const UNKNOWN_FIELD = 0x77; // 'w'

const NO_CALLS: Refused = { sqlstate: '0A000', message: 'the user reader cannot send FunctionCall messages' };

const malformed = () => new SessionError('08P01', 'invalid message, or one that has no place here', 'malformed');

const tooLong = () =>
  new SessionError('54000', `a message of the user reader may have at most ${LONGEST_MESSAGE} bytes`, 'malformed');

const notName = () =>
  new SessionError(
    '42602',
    'names of statements and portals of the user reader may have at most 63 characters of ASCII',
    'malformed',
  );

const tooManyNames = () =>
  new SessionError('54000', 'too many prepared statements that end a transaction', 'malformed');

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
