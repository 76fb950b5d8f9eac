/**
 * Any number of records: cut into batches as the caller's source yields them, a few in flight at a time, each with a
 * key of its own so that a repeat stores nothing twice.
 */
import type { ErrorPlace } from '../contract/errors.js';
import type { BatchAnswer } from '../contract/wire/batch.js';
import { cut, type Parcel, type RecordSource } from './batches.js';
import { aborted, CdpError } from './error.js';
import { toJson } from './json.js';
import { verdictOn } from './refusal.js';
import type { Transport } from './transport.js';

export interface InsertProgress {
  /** Rows that the service has acknowledged. */
  inserted: number;
  /** Batches that it has acknowledged. */
  batches: number;
  /** Requests that had to be repeated. */
  retries: number;
  /** Records that were handed to `onRefused`. */
  refused: number;
}

export interface RefusedRecord<Item> {
  /** 0-based position in the caller's whole input. */
  index: number;
  record: Item;
  /** What is wrong with it. */
  errors: readonly ErrorPlace[];
}

export interface InsertOptions<Item> {
  /** Batches in flight at a time. Default 4. */
  concurrency?: number;
  /** `'ids'`: the result holds the id of every record. */
  return?: 'ids';
  /** Called after each batch. */
  onProgress?: (progress: Readonly<InsertProgress>) => void;
  /**
   * Called with each record that the service refuses; the others of its batch are sent again. Without it, the first
   * refusal ends the insert.
   */
  onRefused?: (refused: RefusedRecord<Item>) => void | Promise<void>;
  signal?: AbortSignal;
}

export interface InsertResult extends InsertProgress {
  /** With `return: 'ids'`, by the position of the record in the input; null where it was refused. */
  ids?: (string | null)[];
}

/** Of one batch, sent as it is. */
export interface BatchOptions {
  /**
   * 1 to 255 printable ASCII characters; default: one of its own. The same batch under the same key is stored once,
   * for 24 hours, whichever process sends it.
   */
  idempotencyKey?: string;
  /** `'ids'`: the result holds the id of every record. */
  return?: 'ids';
  signal?: AbortSignal;
  /** Called before each repeat. */
  onRetry?: () => void;
}

export interface BatchResult {
  inserted: number;
  /** With `return: 'ids'`, in the order of the records. */
  ids?: string[];
}

/**
 * Sends 1 to 250 records in one request, which are stored wholly or not at all.
 * @throws TypeError for what is no array of records, or what JSON cannot say; CdpError, `errors[].record` counting in the batch
 */
export async function insertBatch<Item extends object>(
  transport: Transport,
  path: string,
  records: readonly Item[],
  options: BatchOptions,
): Promise<BatchResult> {
  if (!Array.isArray(records)) throw noRecords(records, 'an array of records');
  const answer = await sendBatch(transport, path, `[${records.map((record) => toJson(record)).join(',')}]`, options);
  return { inserted: answer.inserted_rows, ...(answer.ids === undefined ? {} : { ids: answer.ids }) };
}

const sendBatch = (
  transport: Transport,
  path: string,
  body: string,
  { idempotencyKey = newKey(), return: wanted, signal, onRetry }: BatchOptions,
): Promise<BatchAnswer> =>
  transport.json<BatchAnswer>({
    method: 'POST',
    path: path + (wanted === undefined ? '' : '?return=ids'),
    body,
    headers: { 'idempotency-key': idempotencyKey },
    repeatable: true,
    signal,
    ...(onRetry === undefined ? {} : { onRetry }),
  });

/**
 * Sends all records of the source to the table. The source is asked for more only when there is room for a batch.
 * @throws TypeError for a source or a concurrency that is none; CdpError with `inserted`, and `errors[].record` counted in the whole input. After a failure no new batch is
 * begun, and those in flight are waited for; after an abort they are not, and may yet be stored.
 */
export async function insertAll<Item extends object>(
  transport: Transport,
  path: string,
  source: RecordSource<Item>,
  options: InsertOptions<Item>,
): Promise<InsertResult> {
  const { concurrency = 4, signal } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new TypeError('concurrency must be a whole number from 1');
  }
  if (!isSource(source)) throw noRecords(source, 'an iterable or async iterable of records');
  const delivery = new Delivery(transport, path, options);
  const halt = new AbortController();
  const stop = () => halt.abort();
  let failure: unknown;
  if (signal?.aborted) throw aborted(signal);
  signal?.addEventListener('abort', stop);

  const batches = cut(source, (refused) => delivery.refuse(refused));
  const worker = async (): Promise<void> => {
    for (;;) {
      const next = await unless(halt.signal, batches.next());
      if (next === undefined || next.done) return;
      await delivery.send(next.value);
    }
  };
  const workers = Array.from({ length: concurrency }, () =>
    worker().catch((error: unknown) => {
      failure ??= error;
      halt.abort();
    }),
  );
  await Promise.all(workers);
  signal?.removeEventListener('abort', stop);

  if (failure === undefined && !signal?.aborted) return delivery.result;
  // Closes the source, as soon as it yields: it may be waiting for something that never comes.
  void batches.return().catch(() => {});
  const { inserted } = delivery.result;
  if (signal?.aborted) throw aborted(signal).with('The insert was aborted', { inserted });
  if (failure instanceof CdpError) throw failure.with(failure.message, { inserted });
  throw new CdpError('caller_error', `The source of records or a callback failed: ${String(failure)}`, {
    inserted,
    cause: failure,
  });
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** A text is iterable, too, but its characters are no records. */
const isSource = (source: unknown): boolean =>
  isObject(source) && (Symbol.iterator in source || Symbol.asyncIterator in source);

/** For programs in JavaScript: the compiler says so to others. */
function noRecords(given: unknown, wanted: string): TypeError {
  const hint = given instanceof Promise ? '; await it' : isObject(given) ? '; one record goes as [record]' : '';
  return new TypeError(`insert takes ${wanted}${hint}`);
}

/** The batches of one insert, and what has become of them. */
class Delivery<Item extends object> {
  readonly result: InsertResult = { inserted: 0, batches: 0, retries: 0, refused: 0 };
  readonly #transport: Transport;
  readonly #path: string;
  readonly #options: InsertOptions<Item>;

  constructor(transport: Transport, path: string, options: InsertOptions<Item>) {
    this.#transport = transport;
    this.#path = path;
    this.#options = options;
    if (options.return === 'ids') this.result.ids = [];
  }

  async send(batch: readonly Parcel<Item>[]): Promise<void> {
    const { signal, onProgress } = this.#options;
    try {
      const answer = await sendBatch(this.#transport, this.#path, `[${batch.map(({ json }) => json).join(',')}]`, {
        ...(this.result.ids === undefined ? {} : { return: 'ids' }),
        ...(signal === undefined ? {} : { signal }),
        onRetry: () => void this.result.retries++,
      });
      this.result.inserted += answer.inserted_rows;
      this.result.batches++;
      answer.ids?.forEach((id, i) => this.#keepId(batch[i], id));
    } catch (error) {
      if (!(error instanceof CdpError)) throw error;
      await this.#handleRefusal(error, batch);
      return;
    }
    onProgress?.({ ...this.result });
  }

  /** @throws the error itself, where it is not for `onRefused` */
  async #handleRefusal(refusal: CdpError, batch: readonly Parcel<Item>[]): Promise<void> {
    const error = inInput(refusal, batch);
    const verdict = this.#options.onRefused === undefined ? undefined : verdictOn(refusal, batch.length);
    if (verdict === undefined) throw error;
    for (const [place, found] of verdict.refused) {
      const parcel = batch[place];
      if (parcel === undefined) throw error;
      const { index, record } = parcel;
      await this.refuse({ index, record, errors: found.map((each) => placeInInput(each, index)) });
    }
    for (const places of verdict.again) await this.send(batch.filter((_, i) => places.includes(i)));
  }

  /** @throws CdpError where the caller wants none refused */
  async refuse(refused: RefusedRecord<Item>): Promise<void> {
    const { onRefused } = this.#options;
    const [place] = refused.errors;
    if (onRefused === undefined) {
      throw new CdpError(place?.error ?? 'invalid_value', place?.message ?? '', { errors: refused.errors });
    }
    this.result.refused++;
    if (this.result.ids !== undefined) this.result.ids[refused.index] = null;
    await onRefused(refused);
  }

  #keepId(parcel: Parcel<Item> | undefined, id: string): void {
    if (parcel !== undefined && this.result.ids !== undefined) this.result.ids[parcel.index] = id;
  }
}

/** The same error with records counted in the whole input, in its words too. */
function inInput<Item>(error: CdpError, batch: readonly Parcel<Item>[]): CdpError {
  const indexOf = (record: number) => batch[record]?.index ?? record;
  const message = error.message.replace(RECORD, (_, record: string) => `Record ${indexOf(Number(record))}`);
  const errors = error.errors.map((place) =>
    place.record === undefined ? place : placeInInput(place, indexOf(place.record)),
  );
  return error.with(message, { errors, errorCount: error.errorCount });
}

const RECORD = /^Record (\d+)/;

const placeInInput = (place: ErrorPlace, record: number): ErrorPlace => ({
  ...place,
  message: place.message.replace(RECORD, `Record ${record}`),
  record,
});

/** 128 random bits. Not `randomUUID`, which browsers have on secure pages alone. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** What the promise becomes, or undefined as soon as the signal aborts. */
export function unless<Value>(signal: AbortSignal, promise: Promise<Value>): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    const stop = () => resolve(undefined);
    signal.addEventListener('abort', stop);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
    if (signal.aborted) stop();
  });
}
