/** Reads and encodes the records of all files, in order. The same plan and files give the same records in every process. */
import type { StreamedRecord } from '../client/record-stream.js';
import { FileError } from './file-error.js';
import { encoderFor } from './record-encoder.js';
import type { EncodedRecord } from './refused-lines.js';
import type { ImportPlan, PlannedFile } from './import-plan.js';
import type { ImportFile, FileReadOptions, Source } from './source.js';

/** A record with its number, from 0 over all files. */
export interface NumberedRecord extends StreamedRecord<EncodedRecord> {
  readonly file: string;
}

/** The reader waits once for so many records. */
const GROUP = 500;
const GROUP_CHARACTERS = 128 * 1024;

export class RecordReader {
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

  /** @param from the number of the first record; those before it are not encoded */
  async *groups(from: number): AsyncGenerator<NumberedRecord[], void> {
    const { files: planned, reading } = this.plan;
    let index = 0;
    for (const [i, file] of this.files.entries()) {
      const plan = planned[i] as PlannedFile;
      this.current = this.opened[i] ?? (await openPlanned(file, plan, reading));
      const encode = encoderFor(plan.format.kind, plan.mappings, reading);
      let group: NumberedRecord[] = [];
      let characters = 0;
      try {
        for await (const read of this.current.records) {
          const number = index++;
          if (number < from) continue;
          const record = encode(read);
          group.push({ index: number, record, json: inOneLine(record.json), end: 0, file: file.path });
          characters += record.json.length;
          if (group.length < GROUP && characters < GROUP_CHARACTERS) continue;
          const full = group;
          [group, characters] = [[], 0];
          yield full;
        }
      } finally {
        // Also if the file cannot be read further.
        if (group.length > 0) yield group;
      }
      this.bytesBefore += this.current.input.size ?? 0;
      this.current = undefined;
    }
  }

  close(): void {
    this.current?.input.close();
  }
}

/** Line feeds in valid JSON are white space. */
const inOneLine = (json: string): string =>
  json.includes('\n') || json.includes('\r') ? json.replace(/[\r\n]/g, ' ') : json;

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
