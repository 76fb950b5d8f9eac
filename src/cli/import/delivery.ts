/** Sends the batches, a few at a time, each piece of one under its own key; takes bad records out and sends the rest. */
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { rawJson } from '../../client/json.js';
import { verdictOn } from '../../client/refusal.js';
import { unless } from '../../client/insert.js';
import type { Batch } from './batches.js';
import type { Journal } from './journal.js';
import type { Refusal, RefusedFile } from './refused-file.js';

export interface DeliveryOptions {
  client: CdpClient;
  table: string;
  concurrency: number;
  /** Ends with the first record that is refused. */
  isStrict: boolean;
  /** Ends what is under way; for whoever does not want to wait. */
  signal: AbortSignal;
}

/** Records are sent as text, which the service reads; of one that it cannot read at all it does not say which. */
const ABOUT_RECORDS = ['invalid_json', 'payload_too_large'] as const;

export class Delivery {
  retries = 0;
  readonly #halt = new AbortController();
  readonly #journal: Journal<unknown>;
  readonly #refused: RefusedFile;
  readonly #options: DeliveryOptions;

  constructor(journal: Journal<unknown>, refused: RefusedFile, options: DeliveryOptions) {
    this.#journal = journal;
    this.#refused = refused;
    this.#options = options;
  }

  /** No more batches are begun; those under way are waited for. */
  stop(): void {
    this.#halt.abort();
  }

  /**
   * @returns whether all batches are done; false where it was stopped
   * @throws CdpError, or whatever the files throw, when what is under way has come to its end
   */
  async run(batches: AsyncGenerator<Batch, void>): Promise<boolean> {
    let failure: unknown;
    let isAll = false;
    const worker = async (): Promise<void> => {
      for (;;) {
        const next = await unless(this.#halt.signal, batches.next());
        if (next === undefined) return;
        if (next.done) return void (isAll = true);
        if (!this.#journal.isDone(next.value.number)) await this.#send(next.value);
      }
    };
    const workers = Array.from({ length: this.#options.concurrency }, () =>
      worker().catch((error: unknown) => {
        failure ??= error;
        this.stop();
      }),
    );
    await Promise.all(workers);
    if (failure !== undefined) throw failure as Error;
    return isAll && !this.#halt.signal.aborted;
  }

  async #send(batch: Batch): Promise<void> {
    const { number, records } = batch;
    if (this.#journal.stateOf(number).pieces === null) {
      const unsendable = new Map(
        records.flatMap(({ problem }, place) => (problem === undefined ? [] : [[place, [problem]] as const])),
      );
      const good = records.flatMap(({ problem }, place) => (problem === undefined ? [place] : []));
      if (unsendable.size > 0) await this.#split(batch, 0, unsendable, good.length === 0 ? [] : [good]);
    }
    while (!this.#journal.isDone(number)) {
      this.#journal.sending(number);
      const { pieces } = this.#journal.stateOf(number);
      const piece = pieces?.[0] ?? { id: 0, places: records.map((_, place) => place) };
      await this.#sendPiece(batch, piece.id, piece.places, pieces === null);
    }
  }

  async #sendPiece(batch: Batch, piece: number, places: readonly number[], isWhole: boolean): Promise<void> {
    const { client, table, signal } = this.#options;
    const texts = places.map((place) => rawJson(batch.records[place]?.json ?? ''));
    try {
      const { inserted } = await client.insertBatch(table, texts, {
        idempotencyKey: this.#journal.keyOf(batch.number, piece),
        signal,
        onRetry: () => void this.retries++,
      });
      if (isWhole) this.#journal.batchDone(batch.number, inserted);
      else this.#journal.pieceDone(batch.number, piece, inserted);
    } catch (error) {
      const verdict = error instanceof CdpError ? verdictOn(error, places.length, ABOUT_RECORDS) : undefined;
      if (verdict === undefined) throw error;
      const inBatch = (place: number): number => places[place] ?? place;
      const refused = new Map([...verdict.refused].map(([place, errors]) => [inBatch(place), errors]));
      await this.#split(
        batch,
        piece,
        refused,
        verdict.again.map((part) => part.map(inBatch)),
        error as CdpError,
      );
    }
  }

  /** Writes down what is refused and what will be sent instead, before it is. */
  async #split(
    { number, file, records }: Batch,
    piece: number,
    refused: ReadonlyMap<number, Refusal['errors']>,
    into: number[][],
    error?: CdpError,
  ): Promise<void> {
    const refusals = [...refused].flatMap(([place, errors]) => {
      const record = records[place];
      return record === undefined ? [] : [{ record, errors }];
    });
    const [first] = refusals;
    if (this.#options.isStrict && first !== undefined) {
      const { line } = first.record;
      const message = first.errors.map((place) => place.message.replace(/^Record \d+(?:: |, )/, '')).join('; ');
      throw new CdpError(error?.code ?? 'invalid_value', `${file}, line ${line}: ${message}`, {
        ...(error === undefined ? {} : { status: error.status, hint: error.hint }),
      });
    }
    const journal = this.#journal;
    let bytes = journal.refusedBytes;
    if (refusals.length > 0) {
      if (this.#refused.ensure()) journal.refusesInto(this.#refused.path);
      bytes = this.#refused.append(file, refusals, bytes);
    }
    journal.split(number, piece, refusals.length, into, bytes);
    this.#refused.sync();
    await journal.sync();
  }
}
