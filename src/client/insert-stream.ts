/** Inserts a stream of any length: records, or the bytes of a file. */
import type { ErrorDetail, StoredPart } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import type { ReceiptsResponse } from '../contract/wire/receipts.js';
import { jsonOrError, type RecordSource } from './batches.js';
import { aborted, CdpError } from './error.js';
import {
  batchQuery,
  newKey,
  type RefusedRecord,
  requireSource,
  STREAM_STORE_NAMES,
  type StoreOptions,
} from './insert.js';
import { toJson } from './json.js';
import { checkOptions, type Names } from './options.js';
import {
  answerOf,
  canStream,
  RecordStream,
  streamOf,
  type StreamAnswer,
  type StreamedRecord,
} from './record-stream.js';
import { Deadline, type Transport } from './transport.js';

export interface StreamProgress {
  /** Rows that the service has acknowledged: inserted and updated. */
  rows: number;
  /** Bytes of the stream that hold them. */
  bytes: number;
}

interface CommonOptions extends Omit<StoreOptions, 'dryRun'> {
  /** Called when the service says how much is stored, at most twice a second. */
  onProgress?: (progress: Readonly<StreamProgress>) => void;
  signal?: AbortSignal;
}

export interface InsertStreamOptions<Item> extends CommonOptions {
  /**
   * Called for each record that the service refuses; the others are stored. Without it, the first refused record ends
   * the stream. Not with `onError`.
   */
  onRefused?: (refused: RefusedRecord<Item>) => void | Promise<void>;
}

/** How text is read that is sent as it is. */
export interface InsertTextOptions extends CommonOptions {
  /** In UTF-8. A CSV or TSV begins with the names of the columns. */
  contentType: 'text/csv' | 'text/tab-separated-values' | 'application/x-ndjson';
  /** Of a CSV, instead of a comma. */
  delimiter?: string;
  /** Text that means NULL, besides an empty field. */
  null?: string;
  /**
   * 1 to 255 printable ASCII characters; default: a random one. A later process that sends the same text under the same
   * key stores only what is not stored yet.
   */
  idempotencyKey?: string;
}

const COMMON: Names<CommonOptions> = { ...STREAM_STORE_NAMES, onProgress: true, signal: true };
const RECORD_NAMES: Names<InsertStreamOptions<object>> = { ...COMMON, onRefused: true };
const TEXT_NAMES: Names<InsertTextOptions> = {
  ...{ ...COMMON, contentType: true, delimiter: true, null: true, idempotencyKey: true },
};

/** Pieces of text or bytes. A Blob, a text or a function can be read again, so that a broken stream goes on. */
export type TextSource =
  | string
  | Blob
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>
  | (() => Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>);

export interface InsertStreamResult {
  inserted: number;
  /** With `onConflict`. */
  updated?: number;
  /** With `onConflict`. */
  ignored?: number;
  /** With `unchanged`. */
  unchanged?: number;
  /** With `onError`. */
  quarantined?: number;
  /** The errors of the first quarantined records. */
  errors?: readonly ErrorDetail[];
  /** Transactions that stored it. */
  chunks: number;
  bytes: number;
  /** Repeated requests. */
  retries: number;
  /** Records passed to `onRefused`. */
  refused: number;
}

/**
 * Sends all records of the source, as fast as the service stores them.
 * @throws TypeError if the source or an option is invalid; CdpError with `inserted`, whose `errors[].record` is the
 * position in the input
 */
export async function insertRecordStream<Item extends object>(
  transport: Transport,
  path: string,
  source: RecordSource<Item>,
  options: InsertStreamOptions<Item>,
): Promise<InsertStreamResult> {
  checkOptions(options, RECORD_NAMES, 'insertStream');
  requireSource(source);
  const { onRefused, onError, signal } = options;
  if (onError !== undefined && onRefused !== undefined) {
    throw new TypeError('Refused records go to onRefused or to the quarantine: give onRefused or onError, not both');
  }
  const total = new Total(options);
  const key = newKey();
  const refuse = async (refused: RefusedRecord<Item>): Promise<void> => {
    const [place] = refused.errors;
    if (onRefused === undefined)
      throw new CdpError(place?.error ?? 'invalid_value', place?.message ?? '', { errors: refused.errors });
    total.refused++;
    await onRefused(refused);
  };
  const groups = grouped(source, refuse);
  const stream = new RecordStream<StreamedRecord<Item>>(
    { transport, path: path + batchQuery(options), signal },
    groups,
    {
      keyOf: (part) => (part === 0 ? key : `${key}-${part}`),
      onStored: (stored) => total.say(stored),
      onAnswer: (answer) => total.add(answer),
      onRefused:
        onRefused &&
        (async (list) => {
          for (const { record, errors } of list) await refuse({ index: record.index, record: record.record, errors });
        }),
      onRetry: () => void total.retries++,
    },
  );
  try {
    await stream.send();
    return total.result;
  } catch (error) {
    throw total.failed(error, signal);
  } finally {
    // Not awaited: its next record may never come.
    void groups.return().catch(() => {});
  }
}

const GROUP = 200;

/** Records that need not be waited for, together. */
async function* grouped<Item extends object>(
  source: RecordSource<Item>,
  refuse: (refused: RefusedRecord<Item>) => Promise<void>,
): AsyncGenerator<StreamedRecord<Item>[], void> {
  let index = 0;
  let group: StreamedRecord<Item>[] = [];
  let characters = 0;
  const isAsync = Symbol.asyncIterator in source;
  const add = async (record: Item): Promise<void> => {
    const json = jsonOrError(record, index);
    if (typeof json === 'string') {
      const line = json.includes('\n') || json.includes('\r') ? json.replace(/[\n\r]/g, ' ') : json;
      group.push({ index, record, json: line, end: 0 });
      characters += line.length;
    } else {
      await refuse({ index, record, errors: [json] });
    }
    index++;
  };
  const take = () => {
    const full = group;
    [group, characters] = [[], 0];
    return full;
  };
  try {
    for await (const record of source) {
      await add(record);
      if (isAsync || group.length === GROUP || characters > 64 * 1024) yield take();
    }
  } finally {
    // Also if the source fails: what it has given is stored.
    if (group.length > 0) yield take();
  }
}

/** Counts over all requests of a stream. */
class Total {
  retries = 0;
  refused = 0;
  private sum: StreamAnswer = { inserted_rows: 0, chunks: 0, bytes: 0 };
  private current: StoredPart = { rows: 0, bytes: 0 };

  constructor(private readonly options: CommonOptions) {}

  get result(): InsertStreamResult {
    const { inserted_rows: inserted, updated_rows, ignored_rows, errors, chunks, bytes } = this.sum;
    const { unchanged_rows, quarantined_rows } = this.sum;
    const { onConflict, unchanged, onError } = this.options;
    return {
      inserted,
      ...(onConflict === undefined ? {} : { updated: updated_rows ?? 0, ignored: ignored_rows ?? 0 }),
      ...(unchanged === undefined ? {} : { unchanged: unchanged_rows ?? 0 }),
      ...(onError === undefined ? {} : { quarantined: quarantined_rows ?? 0 }),
      ...(errors === undefined ? {} : { errors }),
      ...{ chunks, bytes, retries: this.retries, refused: this.refused },
    };
  }

  /** Bytes of the request under way that the service has acknowledged. */
  get bytesSaid(): number {
    return this.current.bytes;
  }

  say(stored: StoredPart): void {
    this.current = stored;
    const { sum } = this;
    const rows = sum.inserted_rows + (sum.updated_rows ?? 0) + stored.rows;
    this.options.onProgress?.({ rows, bytes: sum.bytes + stored.bytes });
  }

  add(answer: StreamAnswer): void {
    const { sum } = this;
    this.current = { rows: 0, bytes: 0 };
    for (const name of ['updated_rows', 'ignored_rows', 'unchanged_rows', 'quarantined_rows'] as const)
      if (answer[name] !== undefined) sum[name] = (sum[name] ?? 0) + answer[name];
    for (const name of ['inserted_rows', 'chunks', 'bytes'] as const) sum[name] += answer[name];
    if (answer.errors !== undefined)
      sum.errors = [...(sum.errors ?? []), ...answer.errors].slice(0, LIMITS.errorsListed);
    this.say(this.current);
  }

  failed(error: unknown, signal: AbortSignal | undefined): CdpError {
    const { sum, current } = this;
    const inserted = sum.inserted_rows + (sum.updated_rows ?? 0) + current.rows;
    if (signal?.aborted) return aborted(signal).with('The insert was aborted', { inserted });
    if (error instanceof CdpError) return error.with(error.message, { inserted });
    const message = `The source of records or a callback failed: ${String(error)}`;
    return new CdpError('caller_error', message, { inserted, cause: error });
  }
}

/**
 * Sends text as it is. After a broken connection it goes on if the source can be read again.
 * @throws TypeError if an option is invalid; CdpError with `inserted`, whose `errors[].line` is in the text
 */
export async function insertTextStream(
  transport: Transport,
  path: string,
  source: TextSource,
  options: InsertTextOptions,
): Promise<InsertStreamResult> {
  checkOptions(options, TEXT_NAMES, 'insertStream');
  const { idempotencyKey = newKey(), contentType, delimiter, null: nullText, signal } = options;
  const headers = { 'content-type': contentType, accept: 'application/x-ndjson', 'idempotency-key': idempotencyKey };
  const query = new URLSearchParams(batchQuery(options));
  if (delimiter !== undefined) query.set('delimiter', delimiter);
  if (nullText !== undefined) query.set('null', nullText);
  const total = new Total(options);
  /** What the source or a callback throws is no failure of the network. */
  let failure: { error: unknown } | undefined;
  const onFailure = (error: unknown) => void (failure ??= { error });
  try {
    const text = await textOf(source, onFailure);
    for (let [retries, offset] = [0, 0]; ;) {
      query.set('offset', String(offset));
      const deadline = new Deadline();
      const read = (response: Response) =>
        answerOf(response, signal, (stored) => {
          deadline.renew();
          retries = 0;
          try {
            total.say(stored);
          } catch (error) {
            onFailure(error);
          }
        });
      try {
        const body = text instanceof Blob ? text.slice(offset) : text(offset, deadline);
        const answered = transport.exchange(
          { path: `${path}?${query.toString()}`, headers, body, signal },
          read,
          deadline,
        );
        // Nobody tells how far it has been sent.
        if (text instanceof Blob) deadline.clear();
        total.add(await answered);
        if (failure !== undefined) throw failure.error;
        return total.result;
      } catch (error) {
        if (failure !== undefined) throw failure.error;
        if (error instanceof CdpError && error.stored !== undefined) total.say(error.stored);
        const canRepeat = text instanceof Blob || typeof source === 'function';
        const onRetry = () => void total.retries++;
        await transport.beforeRetry(error, retries++, { idempotent: canRepeat, signal, onRetry });
        if (!canRepeat) throw error;
        offset = (await storedBytes(transport, path, idempotencyKey, signal)) ?? total.bytesSaid;
      }
    }
  } catch (error) {
    throw total.failed(error, signal);
  }
}

/** A Blob, or what makes the body from an offset. Browsers cannot stream a body, but read a Blob from the disk. */
async function textOf(source: TextSource, onFailure: (error: unknown) => void) {
  if (source instanceof Blob) return source;
  if (typeof source === 'string') return new Blob([source]);
  const from = (offset: number, deadline?: Deadline) => {
    const pieces = piecesFrom(typeof source === 'function' ? source() : source, offset);
    return streamOf(async () => {
      deadline?.clear();
      const { value } = await pieces.next().catch((error: unknown) => {
        onFailure(error);
        throw error;
      });
      deadline?.renew();
      return value ?? undefined;
    });
  };
  return canStream() ? from : new Response(from(0)).blob();
}

/** @param offset so many bytes are left out */
async function* piecesFrom(
  source: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  offset: number,
): AsyncGenerator<Uint8Array, void> {
  const utf8 = new TextEncoder();
  for await (const piece of source) {
    const bytes = typeof piece === 'string' ? utf8.encode(piece) : piece;
    if (bytes.length > offset) yield bytes.subarray(offset);
    offset -= Math.min(offset, bytes.length);
  }
}

/** null: the token may only append, and reads no receipts. */
async function storedBytes(
  transport: Transport,
  path: string,
  key: string,
  signal?: AbortSignal,
): Promise<number | null> {
  const body = toJson({ table: path.slice(path.lastIndexOf('/') + 1), keys: [key] });
  const call = { method: 'POST', path: '/api/cdp/receipts/query', body, idempotent: true, signal } as const;
  try {
    const [receipt] = (await transport.json<ReceiptsResponse>(call)).receipts;
    return receipt?.status === 'stored' ? (receipt.bytes ?? 0) : 0;
  } catch (error) {
    if (error instanceof CdpError && error.code === 'insufficient_scope') return null;
    throw error;
  }
}
