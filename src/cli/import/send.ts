/** Sends batches, each part under its own idempotency key. Writes bad records to the file of refused ones and sends the rest. */
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { rawJson } from '../../client/json.js';
import { type Partition, partitionBatch } from '../../client/partition.js';
import type { Batch } from './batches.js';
import type { Journal, Part } from './journal.js';
import { messageIn, type RefusedFile } from './refused-file.js';

export interface SenderOptions {
  client: CdpClient;
  table: string;
  /** Fail with the first refused record. */
  strict: boolean;
  /** Aborts requests in flight. */
  signal: AbortSignal;
}

/** Records go as text. If the service cannot read one, it does not say which. */
const CAUSED_BY_TEXT = ['invalid_json', 'payload_too_large'] as const;

export class BatchSender {
  retries = 0;

  constructor(
    private readonly journal: Journal,
    private readonly refusedFile: RefusedFile,
    private readonly options: SenderOptions,
  ) {}

  /** Sends what the journal does not have as done. @throws CdpError; and what writing to the files throws */
  async send(batch: Batch): Promise<void> {
    const { journal } = this;
    const [first] = journal.partsOf(batch.number);
    if (first !== undefined && !journal.isSplit(batch.number)) this.removeUnsendable(batch, first);
    for (;;) {
      const [part] = journal.partsOf(batch.number);
      if (part === undefined) return;
      journal.addSent(batch.number);
      await this.sendPart(batch, part);
    }
  }

  private removeUnsendable(batch: Batch, part: Part): void {
    const refused: Partition['refused'] = new Map();
    const good: number[] = [];
    batch.records.forEach(({ problem }, i) => {
      if (problem === undefined) good.push(i);
      else refused.set(i, [problem]);
    });
    if (refused.size > 0) this.split(batch, part, { refused, resend: good.length === 0 ? [] : [good] });
  }

  private async sendPart(batch: Batch, part: Part): Promise<void> {
    const { client, table, signal } = this.options;
    const positions = part.positions ?? batch.records.map((_, i) => i);
    try {
      const records = positions.map((i) => rawJson(batch.records[i]?.json ?? ''));
      const { inserted } = await client.insertBatch(table, records, {
        idempotencyKey: this.journal.keyOf(batch.number, part),
        signal,
        onRetry: () => void this.retries++,
      });
      this.journal.addDone(batch.number, part, inserted);
    } catch (error) {
      if (!(error instanceof CdpError)) throw error;
      const partition = partitionBatch(error, positions.length, CAUSED_BY_TEXT);
      if (partition === undefined) throw error;
      const inBatch = (i: number): number => positions[i] ?? i;
      const refused = new Map([...partition.refused].map(([i, errors]) => [inBatch(i), errors]));
      this.split(batch, part, { refused, resend: partition.resend.map((each) => each.map(inBatch)) }, error);
    }
  }

  /** Everything is on disk before any part is sent. */
  private split(batch: Batch, part: Part, { refused, resend }: Partition, cause?: CdpError): void {
    const { journal, refusedFile } = this;
    const lines = [...refused].flatMap(([i, errors]) => {
      const record = batch.records[i];
      return record === undefined ? [] : [{ record, errors }];
    });
    const [first] = lines;
    if (this.options.strict && first !== undefined) {
      const message = `${batch.file}, line ${first.record.line}: ${first.errors.map(messageIn).join('; ')}`;
      throw cause?.with(message, { errors: [] }) ?? new CdpError('invalid_value', message);
    }
    if (first !== undefined && refusedFile.create()) journal.addRefusedFile(refusedFile.path);
    const bytes = journal.refusedBytes + refusedFile.append(batch.file, lines);
    journal.addSplit(batch.number, part, resend, lines.length, bytes);
    refusedFile.sync();
    journal.sync();
  }
}
