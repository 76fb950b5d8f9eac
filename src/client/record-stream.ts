/**
 * Sends records as streams (docs/api.md, "Streams"): one request of any length, which goes on where it broke off. Records
 * are kept until the service has acknowledged them; so any source can be sent again, and a refused record is known.
 *
 * A request ends early, and another one follows under a key of its own, if too much is not acknowledged (a proxy may hold
 * back the progress), if the source pauses, or if few records are sent at a time to find a bad one. In a browser each
 * request has one chunk: `fetch` cannot stream a body over HTTP/1.1 there.
 */
import type { ErrorCode, ErrorDetail, StoredPart } from '../contract/errors.js';
import type { ErrorBody } from '../contract/wire/failure.js';
import { CAUSED_BY_A_RECORD } from './batch-split.js';
import { unlessAborted } from './concurrency.js';
import { CdpError, type CdpErrorCode } from './error.js';
import { linesIn, readBytes } from './row-stream.js';
import { Deadline, fromBody, networkError, type Transport } from './transport.js';

/** A record as it is sent. */
export interface StreamedRecord<Item> {
  /** 0-based position in the whole input. */
  readonly index: number;
  readonly record: Item;
  /** Without line feeds. */
  readonly json: string;
  /** Where it ends in the bytes of its request, once it is sent; 0 before that. */
  end: number;
}

export interface RefusedOfStream<Sent extends StreamedRecord<unknown>> {
  readonly record: Sent;
  readonly errors: readonly ErrorDetail[];
}

/** What the service says at the end of a stream. */
export interface StreamAnswer {
  inserted_rows: number;
  updated_rows?: number;
  ignored_rows?: number;
  unchanged_rows?: number;
  quarantined_rows?: number;
  errors?: readonly ErrorDetail[];
  error_count?: number;
  chunks: number;
  bytes: number;
}

/** Where to go on: with a new request, or with one that has stored so many bytes. */
export interface StreamPlace {
  readonly part: number;
  readonly bytes?: number;
  /** The request has ended; only its answer is missing. */
  readonly isComplete?: boolean;
}

export interface StreamHooks<Sent extends StreamedRecord<unknown>> {
  /** The idempotency key of a request, by its number. */
  keyOf(part: number): string;
  /** Called before a request with a new key, with the first record that it will send. */
  onPart?(part: number, first: number): void | Promise<void>;
  /** Called when more of the request is stored. @param next the first record of what follows */
  onStored?(stored: StoredPart, next: number): void;
  /** Called when a request has ended. @param next as above */
  onAnswer(answer: StreamAnswer, next: number): void | Promise<void>;
  /** Takes the records out of the stream; without it, the first refusal ends the stream. */
  onRefused?: ((refused: readonly RefusedOfStream<Sent>[]) => void | Promise<void>) | undefined;
  onRetry?(): void;
}

export interface StreamTarget {
  readonly transport: Transport;
  /** With the query, but without `offset`. */
  readonly path: string;
  readonly signal: AbortSignal | undefined;
}

/** Of a request in a browser: one chunk of the service. */
const CHUNK = { bytes: 1024 * 1024, records: 10_000 };
/** The most that is sent without being acknowledged. */
const UNACKNOWLEDGED = 16 * 1024 * 1024;
const PIECE = 128 * 1024;
/** If the source pauses for so long, what it has given is sent; and then, the request ends. */
const GATHER_MS = 100;
const PAUSE_MS = 5_000;
/** So many records are sent at a time if the service does not list all bad ones of a chunk. */
const FEW = 250;

/** Records that are sent as text: if the service cannot read one, it may not say which. */
const CAUSED_BY_TEXT: readonly CdpErrorCode[] = ['invalid_json', 'payload_too_large'];

/** Browsers cannot stream the body of a request over HTTP/1.1, and some not at all. */
export const canStream = (): boolean => !('location' in globalThis);

export class RecordStream<Sent extends StreamedRecord<unknown>> {
  /** Those that are not acknowledged, in order; the first `sent` of them are sent. */
  private window: Sent[] = [];
  private sent = 0;
  /** Bytes of the current request: acknowledged, and sent. */
  private acknowledged = 0;
  private position = 0;
  /** Where it has ended: a repeat must not be longer, since the service may have stored it as complete. */
  private end: number | undefined;
  /** The most records of the next request. */
  private limit = canStream() ? Infinity : CHUNK.records;
  private hasEnded = false;
  private pending: Promise<IteratorResult<readonly Sent[], unknown>> | undefined;
  /** Only the newest attempt may go on. */
  private attempt = 0;
  private next = 0;
  /** What the source or a hook has thrown: it ends the request, so that what is stored is known. */
  private failure: { error: unknown } | undefined;

  /**
   * @param source groups of records
   * @param stop ends the request when it aborts: what was sent is stored
   */
  constructor(
    private readonly target: StreamTarget,
    private readonly source: AsyncIterator<readonly Sent[], unknown>,
    private readonly hooks: StreamHooks<Sent>,
    private readonly stop?: AbortSignal,
  ) {}

  /**
   * Sends all records.
   * @param place of an earlier process: what is stored is skipped
   * @returns whether the source was read to its end
   * @throws CdpError; what the source and the hooks throw
   */
  async send(place?: StreamPlace): Promise<boolean> {
    let part = place?.part ?? 0;
    if (place?.bytes !== undefined) {
      await this.skip(place.bytes);
      if (place.isComplete) this.end = place.bytes;
      await this.sendPart(part++);
    }
    for (; await this.hasMore(); part++) {
      this.acknowledged = 0;
      this.end = undefined;
      await this.hooks.onPart?.(part, this.first);
      await this.sendPart(part);
    }
    if (this.failure !== undefined) throw this.failure.error;
    return this.hasEnded && this.window.length === 0;
  }

  /** The first record that is not acknowledged. */
  private get first(): number {
    return this.window[0]?.index ?? this.next;
  }

  private async hasMore(): Promise<boolean> {
    if (this.window.length > 0) return true;
    while (!this.hasEnded && !this.stop?.aborted) {
      await this.read(this.attempt);
      if (this.window.length > 0) return !this.stop?.aborted;
    }
    return false;
  }

  /** Reads over what is stored. @throws CdpError if it does not end between two records */
  private async skip(bytes: number): Promise<void> {
    const utf8 = new TextEncoder();
    let skipped = 0;
    while (skipped < bytes && (this.window.length > 0 || !this.hasEnded)) {
      if (this.window.length === 0) await this.read(this.attempt);
      let at = 0;
      while (at < this.window.length && skipped < bytes) skipped += utf8.encode(this.window[at++]?.json).length + 1;
      this.window.splice(0, at);
    }
    if (this.failure !== undefined) throw this.failure.error;
    if (skipped !== bytes)
      throw new CdpError('idempotency_key_reused', 'The records are not those that were sent before');
    this.acknowledged = bytes;
  }

  /** One request, repeated until it has an answer. */
  private async sendPart(part: number): Promise<void> {
    const { transport, signal } = this.target;
    for (let retries = 0; ;) {
      const before = this.acknowledged;
      try {
        const answer = await this.request(part);
        this.acknowledge(this.position);
        await this.hooks.onAnswer(answer, this.first);
        if (this.limit < Infinity) this.grow();
        return;
      } catch (error) {
        if (error instanceof CdpError && error.stored !== undefined) this.store(error.stored);
        if (this.acknowledged > before) retries = 0;
        if (error instanceof CdpError && (await this.refuse(error))) {
          this.end = undefined;
          continue;
        }
        const onRetry = () => this.hooks.onRetry?.();
        await transport.beforeRetry(error, retries++, { idempotent: true, signal, onRetry });
      }
    }
  }

  private async request(part: number): Promise<StreamAnswer> {
    const { transport, path, signal } = this.target;
    const attempt = ++this.attempt;
    this.sent = 0;
    this.position = this.acknowledged;
    const deadline = new Deadline();
    const pieces = () => this.piece(attempt, deadline);
    const offset = this.acknowledged === 0 ? '' : `${path.includes('?') ? '&' : '?'}offset=${this.acknowledged}`;
    const body = canStream() ? streamOf(pieces) : await joined(pieces);
    const headers = {
      'content-type': 'application/x-ndjson',
      accept: 'application/x-ndjson',
      'idempotency-key': this.hooks.keyOf(part),
    };
    const onProgress = (stored: StoredPart) => {
      deadline.renew();
      this.store(stored);
    };
    const read = (response: Response) => answerOf(response, signal, onProgress);
    try {
      return await transport.exchange({ path: path + offset, headers, body, signal }, read, deadline);
    } finally {
      // What still reads for this request reads no more.
      this.attempt++;
    }
  }

  /** The next bytes of the request; undefined: it ends. */
  private async piece(attempt: number, deadline: Deadline): Promise<Uint8Array | undefined> {
    const utf8 = new TextEncoder();
    let bytes = new Uint8Array(PIECE);
    let length = 0;
    const most = canStream() ? UNACKNOWLEDGED : CHUNK.bytes;
    const isAtEnd = () => this.end !== undefined && this.position + length >= this.end;
    while (attempt === this.attempt && this.sent < this.limit && !isAtEnd()) {
      if (this.sent === this.window.length) {
        if (this.hasEnded || this.stop?.aborted || this.position - this.acknowledged >= most) break;
        deadline.clear();
        const hasArrived = await this.read(attempt, length > 0 ? GATHER_MS : PAUSE_MS);
        deadline.renew();
        if (hasArrived) continue;
        break;
      }
      const record = this.window[this.sent] as Sent;
      const room = 3 * record.json.length + 1;
      if (length + room > bytes.length) {
        if (length > 0) break;
        bytes = new Uint8Array(room);
      }
      length += utf8.encodeInto(record.json, bytes.subarray(length)).written;
      bytes[length++] = LINE_FEED;
      record.end = this.position + length;
      this.sent++;
    }
    if (attempt !== this.attempt) return undefined;
    if (length === 0) {
      this.end = this.position;
      return undefined;
    }
    this.position += length;
    deadline.renew();
    return bytes.subarray(0, length);
  }

  /** Reads more records. @returns whether the source has answered in time */
  private async read(attempt: number, ms?: number): Promise<boolean> {
    const pending = (this.pending ??= this.source.next());
    let result;
    try {
      result = await withinTime(unlessAborted(this.stop, pending), ms);
    } catch (error) {
      this.fail(error);
      return true;
    }
    if (result === undefined || attempt !== this.attempt || this.pending !== pending) return result !== undefined;
    this.pending = undefined;
    if (result.done) this.hasEnded = true;
    else for (const record of result.value) this.window.push(record);
    this.next = (this.window.at(-1)?.index ?? this.next - 1) + 1;
    return true;
  }

  private store(stored: StoredPart): void {
    this.acknowledge(stored.bytes);
    try {
      this.hooks.onStored?.(stored, this.first);
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.failure ??= { error };
    this.hasEnded = true;
  }

  private acknowledge(bytes: number): void {
    if (bytes <= this.acknowledged) return;
    const count = this.placeOf(bytes);
    this.window.splice(0, count);
    this.sent -= count;
    this.acknowledged = bytes;
  }

  /** The number of records sent that end at or before a byte. */
  private placeOf(byte: number): number {
    let [from, to] = [0, this.sent];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.window[middle] as Sent).end <= byte) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /**
   * Takes the bad records out, or arranges to find them.
   * @returns false: no record caused the error
   * @throws CdpError if nobody takes refused records
   */
  private async refuse(error: CdpError): Promise<boolean> {
    const { onRefused } = this.hooks;
    const errors = new Map<number, ErrorDetail[]>();
    for (const place of error.errors) {
      if (place.offset === undefined) continue;
      const at = this.placeOf(place.offset);
      errors.set(at, [...(errors.get(at) ?? []), place]);
    }
    if (onRefused === undefined) {
      if (errors.size > 0) throw this.inInput(error);
      return false;
    }
    if (errors.size === 0) {
      if (![...CAUSED_BY_A_RECORD, ...CAUSED_BY_TEXT].includes(error.code) || this.sent === 0) return false;
      if (this.sent > 1) {
        this.limit = Math.min(this.sent, CHUNK.records) >> 1;
        return true;
      }
      errors.set(0, [{ error: error.code as ErrorCode, message: error.message }]);
    }
    if (error.errorCount > error.errors.length) this.limit = Math.min(this.limit, FEW);
    const refused = [...errors].flatMap(([at, places]) => {
      const record = this.window[at];
      return record === undefined ? [] : [{ record, errors: places.map((place) => inRecord(place, record.index)) }];
    });
    if (refused.length === 0) return false;
    this.window = this.window.filter((_, at) => !errors.has(at));
    this.sent = 0;
    // Saved before what follows is sent.
    await onRefused(refused);
    return true;
  }

  /** Fewer records at a time are needed only near a bad one. */
  private grow(): void {
    const most = canStream() ? Infinity : CHUNK.records;
    this.limit = this.limit * 4 > CHUNK.records ? most : this.limit * 4;
  }

  /** The error with positions in the input instead of lines. */
  private inInput(error: CdpError): CdpError {
    const indexOf = ({ offset = 0 }: ErrorDetail) => this.window[this.placeOf(offset)]?.index ?? 0;
    const [first] = error.errors;
    const message = first === undefined ? error.message : named(error.message, indexOf(first));
    return error.with(message, { errors: error.errors.map((place) => inRecord(place, indexOf(place))) });
  }
}

const LINE_FEED = 0x0a;

const named = (message: string, index: number): string => message.replace(/^Line \d+/, `Record ${index}`);

const inRecord = ({ line: _, offset: __, ...place }: ErrorDetail, index: number): ErrorDetail => ({
  ...place,
  record: index,
  message: named(place.message, index),
});

/** A body of pieces. */
export const streamOf = (next: () => Promise<Uint8Array | undefined>) =>
  new ReadableStream<Uint8Array>({
    async pull(controller) {
      const piece = await next();
      if (piece === undefined) controller.close();
      else controller.enqueue(piece);
    },
  });

async function joined(next: () => Promise<Uint8Array | undefined>): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = [];
  for (let piece = await next(); piece !== undefined; piece = await next()) pieces.push(piece);
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

async function withinTime<Value>(promise: Promise<Value>, ms: number | undefined): Promise<Value | undefined> {
  if (ms === undefined) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms))).then(() => undefined);
  try {
    return await Promise.race([promise, end]);
  } finally {
    clearTimeout(timer);
  }
}

/** A token that may only append learns how many records were accepted, and no more. */
type Answer = StreamAnswer | (Omit<StreamAnswer, 'inserted_rows'> & { accepted_rows: number });

const known = (answer: Answer): StreamAnswer =>
  'accepted_rows' in answer ? { ...answer, inserted_rows: answer.accepted_rows } : answer;

interface Line {
  progress?: StoredPart;
  done?: Answer;
  error?: ErrorBody;
}

/**
 * Reads the response of a stream.
 * @param onProgress called with what is stored
 * @throws CdpError the error of its last line; network_error if that is missing
 */
export async function answerOf(
  response: Response,
  signal: AbortSignal | undefined,
  onProgress: (stored: StoredPart) => void,
): Promise<StreamAnswer> {
  if (!response.headers.get('content-type')?.startsWith('application/x-ndjson'))
    return known((await response.json()) as Answer);
  for await (const lines of linesIn(readBytes(response, signal))) {
    for (const text of lines) {
      const { progress, done, error } = JSON.parse(text) as Line;
      if (done !== undefined) return known(done);
      const failure = fromBody(error ?? null);
      if (failure !== undefined) throw failure;
      if (progress !== undefined) onProgress(progress);
    }
  }
  throw networkError('The response to the stream was interrupted', undefined);
}
