/** Sends batches, each part under its own idempotency key. Sends the good records of a refused batch again. */
import type { CdpClient } from '../client/client.js';
import { CdpError } from '../client/error.js';
import type { StoreOptions } from '../client/insert.js';
import { rawJson } from '../client/json.js';
import { type BatchSplit, splitRefusedBatch } from '../client/batch-split.js';
import type { Batch } from './batch-reader.js';
import type { Journal, Part } from './journal.js';
import type { RefusedLine } from './refused-lines.js';

/** A part of a batch that the service refused. */
export interface RefusedPart {
  batch: Batch;
  part: Part;
  refused: readonly RefusedLine[];
  /** The parts to send instead, as positions in the batch. */
  into: number[][];
  /** The service's error; undefined if the records could not even be sent. */
  cause: CdpError | undefined;
}

interface SenderOptions {
  client: CdpClient;
  table: string;
  storing: StoreOptions;
  /** Aborts requests in flight. */
  signal: AbortSignal;
  /** Saves the refused records, and the split in the journal, before any of its parts is sent. */
  onSplit: (split: RefusedPart) => void | Promise<void>;
}

/** Records are sent as text. If the service cannot read one, it does not report which. */
const CAUSED_BY_TEXT = ['invalid_json', 'payload_too_large'] as const;

export class BatchSender {
  retries = 0;

  constructor(
    private readonly journal: Journal,
    private readonly options: SenderOptions,
  ) {}

  /**
   * Sends the parts that are not done in the journal.
   * @throws CdpError; the errors of the journal
   */
  async send(batch: Batch): Promise<void> {
    const { journal } = this;
    const [first] = journal.partsOf(batch.number);
    if (first !== undefined && !journal.isSplit(batch.number)) await this.removeUnsendable(batch, first);
    for (;;) {
      const [part] = journal.partsOf(batch.number);
      if (part === undefined) return;
      await journal.addSent(batch.number);
      await this.sendPart(batch, part);
    }
  }

  private async removeUnsendable(batch: Batch, part: Part): Promise<void> {
    const refused: BatchSplit['refused'] = new Map();
    const good: number[] = [];
    batch.records.forEach(({ problem }, i) => {
      if (problem === undefined) good.push(i);
      else refused.set(i, [problem]);
    });
    if (refused.size > 0) await this.split(batch, part, { refused, resend: good.length === 0 ? [] : [good] });
  }

  private async sendPart(batch: Batch, part: Part): Promise<void> {
    const { client, table, storing, signal } = this.options;
    const positions = part.positions ?? batch.records.map((_, i) => i);
    try {
      const records = positions.map((i) => rawJson(batch.records[i]?.json ?? ''));
      const {
        inserted,
        updated = 0,
        ignored = 0,
        quarantined = 0,
      } = await client.insertBatch(table, records, {
        ...storing,
        idempotencyKey: this.journal.keyOf(batch.number, part),
        signal,
        onRetry: () => void this.retries++,
      });
      await this.journal.addDone(batch.number, part, { inserted, updated, ignored, quarantined });
    } catch (error) {
      if (!(error instanceof CdpError)) throw error;
      const partition = splitRefusedBatch(error, positions.length, CAUSED_BY_TEXT);
      if (partition === undefined) throw error;
      const inBatch = (i: number): number => positions[i] ?? i;
      const refused = new Map([...partition.refused].map(([i, errors]) => [inBatch(i), errors]));
      await this.split(batch, part, { refused, resend: partition.resend.map((each) => each.map(inBatch)) }, error);
    }
  }

  private async split(batch: Batch, part: Part, { refused, resend }: BatchSplit, cause?: CdpError): Promise<void> {
    const records = [...refused].flatMap(([i, errors]) => {
      const record = batch.records[i];
      return record === undefined ? [] : [{ record, errors }];
    });
    await this.options.onSplit({ batch, part, refused: records, into: resend, cause });
  }
}
