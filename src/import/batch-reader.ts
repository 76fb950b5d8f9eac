/**
 * Divides the records of all files, in order, into batches. The same plan and files give the same batches in every
 * process.
 */
import { cutBatches } from '../client/batches.js';
import { FileError } from './file-error.js';
import { type RecordEncoder, encoderFor } from './record-encoder.js';
import type { EncodedRecord } from './refused-lines.js';
import type { ImportPlan, PlannedFile } from './import-plan.js';
import type { ImportFile, FileReadOptions, Source } from './source.js';

export interface Batch {
  /** The number of the batch, from 0, over all files. */
  readonly number: number;
  readonly file: string;
  readonly records: readonly EncodedRecord[];
}

export class BatchReader {
  private current: Source | undefined;
  private bytesBefore = 0;

  /**
   * @param files in the order of the plan
   * @param opened files that are already open; the others are opened when their turn comes
   */
  constructor(
    private readonly plan: ImportPlan,
    private readonly files: readonly ImportFile[],
    private readonly opened: readonly (Source | undefined)[] = [],
  ) {}

  /** The part of the files that has been read, from 0 to 1; null if their size is unknown. */
  get share(): number | null {
    const sizes = this.plan.files.map(({ identity }) => (identity === null ? NaN : Number.parseInt(identity)));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (Number.isNaN(total)) return null;
    return total === 0 ? 1 : (this.bytesBefore + (this.current?.input.bytesRead() ?? 0)) / total;
  }

  async *batches(): AsyncGenerator<Batch, void> {
    const { files: planned, reading } = this.plan;
    let number = 0;
    for (const [i, file] of this.files.entries()) {
      const plan = planned[i] as PlannedFile;
      this.current = this.opened[i] ?? (await openPlanned(file, plan, reading));
      const encode = encoderFor(plan.format.kind, plan.mappings, reading);
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

/** @throws FileError if the file has changed since its identity was determined */
export async function requireUnchanged(file: ImportFile, identity: string | null): Promise<void> {
  if ((await file.identity()) === identity) return;
  throw new FileError(
    `${file.path} has changed since the import was started`,
    'Start again with --restart; rows already stored are kept',
  );
}

/** @throws FileError if the file has changed since the plan was made */
async function openPlanned(
  file: ImportFile,
  { format, identity }: PlannedFile,
  reading: FileReadOptions,
): Promise<Source> {
  await requireUnchanged(file, identity);
  return file.open({
    ...reading,
    ...(format.kind === 'delimited' ? { format: 'csv', delimiter: format.delimiter } : { format: format.kind }),
  });
}

async function* encoded({ records }: Source, encode: RecordEncoder): AsyncGenerator<EncodedRecord, void> {
  for await (const record of records) yield encode(record);
}
