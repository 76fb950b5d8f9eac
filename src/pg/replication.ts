/**
 * Streams the changes of a logical replication slot (Postgres manual, Streaming Replication Protocol). The reader says how far
 * it has stored them; the server keeps everything after that.
 */
import type { LoginOptions } from './address.js';
import { ConnectionLost, PostgresError } from './errors.js';
import { Framing } from './framing.js';
import { logIn, type LoggedIn } from './handshake.js';
import { BACKEND, dataMessages, readErrorFields, simpleQuery } from './messages.js';

/** Receives the bytes of messages between calls of `readEnded`; they are valid until the call returns. */
export interface ReplicationReader {
  /** A message of the output plugin: `buffer[start, end)`. */
  message(buffer: Buffer, start: number, end: number): void;
  /**
   * The server has nothing before this position that is not sent.
   * @param wantsReply it waits for {@link ReplicationStream.confirm}
   */
  caughtUp(lsn: bigint, wantsReply: boolean): void;
  /** Everything that one read has brought was handed over. Until the promise resolves, nothing more is read. */
  readEnded(): Promise<void> | undefined;
}

export interface ReplicationSource {
  readonly slot: string;
  readonly publications: readonly string[];
  /** Transactions that committed before this position are left out. */
  readonly from: bigint;
}

const COPY_BOTH = 0x57; // 'W'
const XLOG_DATA = 0x77; // 'w'
const KEEPALIVE = 0x6b; // 'k'
/** Its letter, and three positions or times. */
const DATA_HEADER = 25;

/** A message has one value of each column; a row of Postgres can have more, but then its client cannot read it either. */
const MAX_MESSAGE_BYTES = 1024 * 1024 * 1024;

export class ReplicationStream {
  /** Resolves with the reason when the stream has ended. Never rejects. */
  readonly ended: Promise<Error>;
  private end!: (reason: Error) => void;
  private hasEnded = false;
  private pausing: Promise<void> | null = null;

  private constructor(
    private readonly loggedIn: LoggedIn,
    private readonly reader: ReplicationReader,
    private readonly started: () => void,
  ) {
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  /**
   * @returns when the server has begun to stream
   * @throws PostgresError, such as 55006 if another session reads the slot; ConnectionLost
   */
  static async open(
    login: LoginOptions,
    { slot, publications, from }: ReplicationSource,
    reader: ReplicationReader,
  ): Promise<ReplicationStream> {
    const loggedIn = await logIn({ ...login, replication: 'database' });
    let begun = (): void => {};
    const beginning = new Promise<void>((resolve) => (begun = resolve));
    const stream = new ReplicationStream(loggedIn, reader, begun);
    stream.listen();
    const names = publications.map((name) => `"${name}"`).join();
    const text = `START_REPLICATION SLOT "${slot}" LOGICAL ${lsnText(from)} (proto_version '1', publication_names '${names}')`;
    loggedIn.socket.write(simpleQuery(text));
    const failed = await Promise.race([beginning, stream.ended]);
    if (failed !== undefined) throw failed;
    return stream;
  }

  /**
   * Tells the server that everything before this position is stored, and need not be sent again.
   * @param asks the server says how far it is
   */
  confirm(lsn: bigint, asks = false): void {
    const status = Buffer.alloc(34);
    status[33] = Number(asks);
    status.write('r');
    // What is written, flushed and applied.
    for (const at of [1, 9, 17]) status.writeBigUInt64BE(lsn, at);
    status.writeBigInt64BE(BigInt(Date.now() - EPOCH_MS) * 1_000n, 25);
    for (const part of dataMessages(status)) this.loggedIn.socket.write(part);
  }

  /** Closes the connection; what the reader has not taken is sent to the next one. */
  close(): void {
    this.finish(new ConnectionLost('The stream was closed'));
  }

  private listen(): void {
    const { socket } = this.loggedIn;
    const framing = new Framing(
      (type, buffer, start, end) => this.receive(type, buffer, start, end),
      (_type, length) => length <= MAX_MESSAGE_BYTES,
    );
    this.loggedIn.read((bytes, end) => {
      if (this.hasEnded) return;
      try {
        if (!framing.feed(bytes, end)) this.finish(new ConnectionLost('Postgres sent a message that is too long'));
        else this.pauseFor(this.reader.readEnded());
      } catch (error) {
        this.finish(error as Error);
      }
    });
    socket.on('error', (cause) => this.finish(new ConnectionLost('The stream was lost', { cause })));
    socket.on('close', () => this.finish(new ConnectionLost('The stream was lost')));
  }

  private pauseFor(work: Promise<void> | undefined): void {
    if (work === undefined || this.hasEnded) return;
    const { socket } = this.loggedIn;
    socket.pause();
    this.pausing = work
      .then(() => void socket.resume())
      .catch((error: unknown) => this.finish(error as Error))
      .finally(() => (this.pausing = null));
  }

  private receive(type: number, buffer: Buffer, start: number, end: number): void {
    if (type === BACKEND.copyData) {
      const kind = buffer[start];
      if (kind === XLOG_DATA) this.reader.message(buffer, start + DATA_HEADER, end);
      else if (kind === KEEPALIVE) this.reader.caughtUp(buffer.readBigUInt64BE(start + 1), buffer[start + 17] === 1);
    } else if (type === COPY_BOTH) this.started();
    else if (type === BACKEND.error) this.finish(PostgresError.fromFields(readErrorFields(buffer, start, end)));
  }

  private finish(reason: Error): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.loggedIn.socket.destroy();
    // What was read before is stored first.
    void Promise.resolve(this.pausing).then(() => this.end(reason));
  }
}

const EPOCH_MS = Date.UTC(2000, 0, 1);

/** A position as Postgres writes it: `16/B374D848`. */
export const lsnText = (lsn: bigint): string =>
  `${(lsn >> 32n).toString(16).toUpperCase()}/${(lsn & 0xffffffffn).toString(16).toUpperCase()}`;

/** Reads {@link lsnText}. */
export function lsnOf(text: string): bigint {
  const [high = '0', low = '0'] = text.split('/');
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}
