/** The records of all files in turn, as batches. The same plan and files always make the same batches, in every process. */
import { cutBatches } from '../../client/batches.js';
import { type EncodedRecord, type Encoder, encoderFor } from './record-encoder.js';
import { requireUnchanged } from './input.js';
import type { ImportPlan, PlannedFile } from './plan.js';
import { openSource, type ReadOptions, type Source } from './source.js';

export interface Batch {
  /** From 0, over all files. */
  readonly number: number;
  readonly file: string;
  readonly records: readonly EncodedRecord[];
}

export class BatchReader {
  private current: Source | undefined;
  private bytesBefore = 0;

  /** @param opened files that are already open; the others are opened in turn */
  constructor(
    private readonly plan: ImportPlan,
    private readonly opened: readonly (Source | undefined)[],
  ) {}

  /** How much of the files has been read, from 0 to 1; null if their size is unknown. */
  get share(): number | null {
    const sizes = this.plan.files.map(({ identity }) => (identity === null ? NaN : Number.parseInt(identity)));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (Number.isNaN(total)) return null;
    return total === 0 ? 1 : (this.bytesBefore + (this.current?.input.bytesRead() ?? 0)) / total;
  }

  async *batches(): AsyncGenerator<Batch, void> {
    const { files, reading } = this.plan;
    let number = 0;
    for (const [i, file] of files.entries()) {
      this.current = this.opened[i] ?? (await openPlanned(file, reading));
      const encode = encoderFor(file.format.kind, file.mappings, reading);
      for await (const records of cutBatches(encoded(this.current, encode))) {
        yield { number: number++, file: file.path, records };
      }
      this.bytesBefore += this.current.input.size ?? 0;
      this.current = undefined;
    }
  }

  close(): void {
    this.current?.input.close();
  }
}

/** @throws UsageError if the file has changed since it was planned */
async function openPlanned({ path, format, identity }: PlannedFile, reading: ReadOptions): Promise<Source> {
  await requireUnchanged(path, identity);
  return openSource(path, {
    ...reading,
    ...(format.kind === 'delimited' ? { format: 'csv', delimiter: format.delimiter } : { format: format.kind }),
  });
}

async function* encoded({ records }: Source, encode: Encoder): AsyncGenerator<EncodedRecord, void> {
  for await (const record of records) yield encode(record);
}
