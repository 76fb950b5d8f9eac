/**
 * Inserts any number of records in batches. A few batches are in flight at a time, each with its own idempotency key,
 * so that a retry stores nothing twice.
 */
import type { ErrorDetail } from '../contract/errors.js';
import type { AppendResponse, BatchResponse, Resolution } from '../contract/wire/batch.js';
import type { Impact } from '../contract/wire/dry-run.js';
import { cutBatches, type IndexedRecord, jsonOrError, type RecordSource, toRecords } from './batches.js';
import { forEachConcurrently } from './concurrency.js';
import { aborted, CdpError } from './error.js';
import { addImpact } from './impact.js';
import { checkOptions, type Names } from './options.js';
import { splitRefusedBatch } from './batch-split.js';
import type { Transport } from './transport.js';

/** How to treat existing rows with the same key, and bad records. */
export interface StoreOptions {
  /** Columns of a unique index: a record with the key of an existing row changes that row instead of being refused. */
  onConflict?: string | readonly string[];
  /**
   * `'merge'` (default): the record's columns replace the row's. `'replace'`: also sets all other columns to their
   * defaults. `'ignore'`: the row does not change. `'newest'`: as `'merge'`, if the record has a larger `version`.
   */
  resolution?: Resolution;
  /** For `'newest'`: the column that says which is newer. */
  version?: string;
  /** `'skip'`: nothing is written for a row that has all the values of its record. */
  unchanged?: 'skip';
  /** An object in a JSONB column keeps the members that the object in the record lacks. */
  mergeJson?: true;
  /**
   * What becomes of fields that the table has no columns for: `'ignore'` leaves them out, `'into:extra'` keeps them as an object
   * in that JSONB column. Default: the record is refused.
   */
  unknown?: 'ignore' | `into:${string}`;
  /**
   * `'quarantine'`: the service stores the good records of a batch and keeps the others in the project's quarantine.
   */
  onError?: 'quarantine';
  /** Roll everything back, and only count the rows. */
  dryRun?: true;
}

const UPSERT_NAMES = { onConflict: true, resolution: true, version: true, unchanged: true, mergeJson: true } as const;
export const STREAM_STORE_NAMES: Names<Omit<StoreOptions, 'dryRun'>> = {
  ...UPSERT_NAMES,
  unknown: true,
  onError: true,
};
const STORE_NAMES: Names<StoreOptions> = { ...STREAM_STORE_NAMES, dryRun: true };

export interface InsertProgress {
  /** Rows that the service has acknowledged. With a token that may only append, some may be in the quarantine. */
  inserted: number;
  /** With `onConflict`. */
  updated?: number;
  /** With `onConflict`. */
  ignored?: number;
  /** With `unchanged`. */
  unchanged?: number;
  /** With `onError`. */
  quarantined?: number;
  /** Batches that the service has acknowledged. */
  batches: number;
  /** Retried requests. */
  retries: number;
  /** Records passed to `onRefused`. */
  refused: number;
}

export interface RefusedRecord<Item> {
  /** 0-based position in the caller's whole input. */
  index: number;
  record: Item;
  /** The record's errors. */
  errors: readonly ErrorDetail[];
}

/** Browsers open at most six connections to a host. With a key, one batch follows the other, so that the last record of a key wins. */
const defaultConcurrency = ({ onConflict }: StoreOptions): number => (onConflict === undefined ? 4 : 1);

export interface InsertOptions<Item> extends StoreOptions {
  /** Maximum number of batches in flight. Default 4; with `onConflict` 1, so that the last record of a key wins. */
  concurrency?: number;
  /** `'ids'`: the result contains the id of every record. */
  return?: 'ids';
  /** Called after each batch. */
  onProgress?: (progress: Readonly<InsertProgress>) => void;
  /**
   * Called for each record that the service refuses; the other records of its batch are sent again. Without it, the
   * first refused record ends the insert. Not with `onError`.
   */
  onRefused?: (refused: RefusedRecord<Item>) => void | Promise<void>;
  signal?: AbortSignal;
}

const INSERT_ONLY = { concurrency: true, return: true, onProgress: true, onRefused: true, signal: true } as const;
const INSERT_NAMES: Names<InsertOptions<object>> = { ...STORE_NAMES, ...INSERT_ONLY };

export interface InsertResult extends InsertProgress {
  /** With `dryRun`: the impact of all batches together. */
  impact?: Impact;
  /** With `return: 'ids'`, by the position of the record in the input; null if it was refused. */
  ids?: (string | null)[];
}

/** Options for a single batch. */
export interface BatchOptions extends StoreOptions {
  /**
   * 1 to 255 printable ASCII characters; default: a random one. For 24 hours, the same batch under the same key is
   * stored only once, even if several processes send it.
   */
  idempotencyKey?: string;
  /** `'ids'`: the result contains the id of every record. */
  return?: 'ids';
  signal?: AbortSignal;
  /** Called before each retry. */
  onRetry?: () => void;
}

const BATCH_ONLY = { idempotencyKey: true, return: true, signal: true, onRetry: true } as const;
const BATCH_NAMES: Names<BatchOptions> = { ...STORE_NAMES, ...BATCH_ONLY };

export interface BatchResult {
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
  /** With `dryRun`. */
  impact?: Impact;
  /** With `return: 'ids'`, in the order of the records. */
  ids?: string[];
}

/**
 * Sends 1 to 250 records in one request: all of them are stored, or none.
 * @throws TypeError if they are not an array; CdpError whose `errors[].record` is the position in the batch
 */
export async function insertBatch<Item extends object>(
  transport: Transport,
  path: string,
  records: readonly Item[],
  options: BatchOptions,
): Promise<BatchResult> {
  checkOptions(options, BATCH_NAMES, 'insertBatch');
  if (!Array.isArray(records)) throw notRecords(records, 'an array of records');
  const items = records.map((record: Item, i) => {
    const json = jsonOrError(record, i);
    if (typeof json === 'string') return json;
    throw new CdpError(json.error, json.message, { errors: [json] });
  });
  const response = await sendBatch(transport, path, `[${items.join(',')}]`, options);
  const { errors, impact, ids } = response;
  const result: { [Name in keyof BatchResult]: BatchResult[Name] | undefined } = {
    inserted: response.inserted_rows ?? response.accepted_rows,
    updated: response.updated_rows,
    ignored: response.ignored_rows,
    unchanged: response.unchanged_rows,
    quarantined: response.quarantined_rows,
    errors,
    impact,
    ids,
  };
  const present = Object.entries(result).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as unknown as BatchResult;
}

/** The query string of a batch, with its question mark. */
export function batchQuery(options: BatchOptions): string {
  const { return: returned, onConflict, resolution, version, unchanged, mergeJson, unknown, onError, dryRun } = options;
  const query = new URLSearchParams();
  if (returned !== undefined) query.set('return', returned);
  if (onConflict !== undefined) query.set('on_conflict', [onConflict].flat().join(','));
  if (resolution !== undefined) query.set('resolution', resolution);
  if (version !== undefined) query.set('version', version);
  if (unchanged !== undefined) query.set('unchanged', unchanged);
  if (mergeJson) query.set('merge_json', 'true');
  if (unknown !== undefined) query.set('unknown', unknown);
  if (onError !== undefined) query.set('on_error', onError);
  if (dryRun) query.set('dry_run', 'true');
  return query.size === 0 ? '' : `?${query.toString()}`;
}

/** A token that may only append learns only how many records were accepted. */
type SentBatch = Partial<Pick<BatchResponse, 'inserted_rows'> & Pick<AppendResponse, 'accepted_rows'>> &
  Omit<BatchResponse, 'inserted_rows'>;

const sendBatch = (
  transport: Transport,
  path: string,
  body: string,
  { idempotencyKey = newKey(), signal, onRetry, ...options }: BatchOptions,
): Promise<SentBatch> =>
  transport.json<SentBatch>({
    method: 'POST',
    path: path + batchQuery(options),
    body,
    headers: options.dryRun ? {} : { 'idempotency-key': idempotencyKey },
    idempotent: true,
    signal,
    onRetry,
  });

/**
 * Sends all records of the source to the table. Reads the source only when another batch can start. After a failure,
 * starts no new batch and waits for those in flight; after an abort, it does not wait, and they may still be stored.
 * @throws TypeError if the source or an option is invalid; CdpError with `inserted`, whose `errors[].record` is the
 * position in the whole input
 */
export async function insertAll<Item extends object>(
  transport: Transport,
  path: string,
  source: RecordSource<Item>,
  options: InsertOptions<Item>,
): Promise<InsertResult> {
  checkOptions(options, INSERT_NAMES, 'insert');
  const { onError, onRefused, concurrency = defaultConcurrency(options), signal } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new TypeError('concurrency must be a whole number from 1');
  }
  if (onError !== undefined && onRefused !== undefined) {
    throw new TypeError('Refused records go to onRefused or to the quarantine: give onRefused or onError, not both');
  }
  requireSource(source);
  if (signal?.aborted) throw aborted(signal);

  const insert = new Insert(transport, path, options);
  const batches = cutBatches(toRecords(source, (refused) => insert.refuse(refused)));
  try {
    await forEachConcurrently(batches, { concurrency, signal }, (batch) => insert.send(batch));
    if (!signal?.aborted) return insert.result;
    throw aborted(signal);
  } catch (error) {
    // Closes the source at its next record. Not awaited: that record may never come.
    void batches.return().catch(() => {});
    const { inserted } = insert.result;
    if (signal?.aborted) throw aborted(signal).with('The insert was aborted', { inserted });
    if (error instanceof CdpError) throw error.with(error.message, { inserted });
    const message = `The source of records or a callback failed: ${String(error)}`;
    throw new CdpError('caller_error', message, { inserted, cause: error });
  }
}

/** @throws TypeError */
export function requireSource(source: unknown): void {
  if (!isSource(source)) throw notRecords(source, 'an iterable or async iterable of records');
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** A string is iterable, but its characters are not records. */
const isSource = (source: unknown): boolean =>
  isObject(source) && (Symbol.iterator in source || Symbol.asyncIterator in source);

/** For JavaScript programs: TypeScript reports this at compile time. */
function notRecords(value: unknown, expected: string): TypeError {
  const hint = value instanceof Promise ? '; await it' : isObject(value) ? '; one record goes as [record]' : '';
  return new TypeError(`insert takes ${expected}${hint}`);
}

/** The state of one call of {@link insertAll}. */
class Insert<Item extends object> {
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

  async send(batch: readonly IndexedRecord<Item>[]): Promise<void> {
    const { result } = this;
    const options = { ...this.#options, onRetry: () => void result.retries++ };
    try {
      const body = `[${batch.map(({ json }) => json).join(',')}]`;
      const response = await sendBatch(this.#transport, this.#path, body, options);
      result.inserted += response.inserted_rows ?? response.accepted_rows ?? 0;
      if (response.updated_rows !== undefined) result.updated = (result.updated ?? 0) + response.updated_rows;
      if (response.ignored_rows !== undefined) result.ignored = (result.ignored ?? 0) + response.ignored_rows;
      if (response.unchanged_rows !== undefined) result.unchanged = (result.unchanged ?? 0) + response.unchanged_rows;
      if (response.quarantined_rows !== undefined)
        result.quarantined = (result.quarantined ?? 0) + response.quarantined_rows;
      if (response.impact !== undefined) result.impact = addImpact(result.impact, response.impact);
      result.batches++;
      batch.forEach(({ index }, i) => {
        const id = response.ids?.[i];
        if (result.ids !== undefined && id !== undefined) result.ids[index] = id;
      });
    } catch (error) {
      if (!(error instanceof CdpError)) throw error;
      return this.#sendGood(error, batch);
    }
    this.#options.onProgress?.({ ...result });
  }

  /**
   * Sends a refused batch again without its bad records.
   * @throws CdpError if no record caused the error, or without `onRefused`
   */
  async #sendGood(error: CdpError, batch: readonly IndexedRecord<Item>[]): Promise<void> {
    const partition = this.#options.onRefused === undefined ? undefined : splitRefusedBatch(error, batch.length);
    if (partition === undefined) throw inInput(error, batch);
    for (const [i, errors] of partition.refused) {
      const bad = batch[i];
      if (bad === undefined) throw inInput(error, batch);
      const { index, record } = bad;
      await this.refuse({ index, record, errors: errors.map((place) => placeInInput(place, index)) });
    }
    for (const positions of partition.resend) await this.send(batch.filter((_, i) => positions.includes(i)));
  }

  /** @throws CdpError without `onRefused` */
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
}

/** The error with record numbers of the whole input, also in its messages. */
function inInput<Item>(error: CdpError, batch: readonly IndexedRecord<Item>[]): CdpError {
  const indexOf = (record: number) => batch[record]?.index ?? record;
  const message = error.message.replace(RECORD, (_, record: string) => `Record ${indexOf(Number(record))}`);
  const errors = error.errors.map((place) =>
    place.record === undefined ? place : placeInInput(place, indexOf(place.record)),
  );
  return error.with(message, { errors });
}

const RECORD = /^Record (\d+)/;

const placeInInput = (place: ErrorDetail, record: number): ErrorDetail => ({
  ...place,
  message: place.message.replace(RECORD, `Record ${record}`),
  record,
});

/** 128 random bits. Browsers provide `randomUUID` only on secure pages. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
