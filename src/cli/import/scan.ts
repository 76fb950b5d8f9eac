/** The first reading of a file: its fields and the types of their values, from all records or a sample. */
import { UsageError } from '../exit.js';
import { ProgressLine } from '../terminal/progress.js';
import { fitsHeader } from './csv-reader.js';
import type { Notation } from './values.js';
import { membersOf } from './json-records.js';
import type { FileRecord, Source } from './source.js';
import { candidatesFor } from './type-candidates.js';
import { TypeInference } from './type-inference.js';

export interface Field {
  readonly name: string;
  readonly inference: TypeInference;
}

export interface Scan {
  /** In order; for JSON, those that occurred. */
  readonly fields: readonly Field[];
  /** Whether all records were used for the types. */
  readonly isComplete: boolean;
  /** The first few records. */
  readonly first: readonly FileRecord[];
  /** If more than half of the records have the same number of fields, and it is not that of the header. */
  readonly otherWidth: { readonly fields: number; readonly line: number } | undefined;
  /** The first line with `\N`, which Postgres and MySQL write for NULL. */
  readonly lineOfBackslashN: number | undefined;
  /** All records, if the file can be read only once; otherwise the file is closed. */
  readonly records: AsyncGenerator<FileRecord, void> | undefined;
}

/** Limits for input that can be read only once, which is kept in memory. */
const KEPT = { records: 10_000, characters: 16 * 1024 * 1024 };
/** A table has at most 500 columns, but fields may be left out. */
const MAX_FIELDS = 10_000;
const FIRST = 3;

/**
 * @param sample number of records to infer types from
 * @param toTheEnd reads the other records as well, so that a file that is broken there is rejected before any of it is sent
 */
export async function scan(
  { input, header, records }: Source,
  { notation, sample, toTheEnd }: { notation: Notation; sample: number; toTheEnd: boolean },
): Promise<Scan> {
  const { size } = input;
  const isOnce = size === null;
  const limit = isOnce ? Math.min(sample, KEPT.records) : sample;
  const profile = new FieldProfile(header, notation);
  const kept: FileRecord[] = [];
  let [count, characters] = [0, 0];
  let isComplete = false;
  const progress = new ProgressLine(
    () => ({ rows: count, share: size === null ? null : input.bytesRead() / size, refused: 0 }),
    `Reading ${input.label.split('/').at(-1)}: `,
  );
  try {
    while (isOnce ? count < limit && characters < KEPT.characters : count < limit || toTheEnd) {
      const { value, done } = await records.next();
      isComplete = done === true && count <= limit;
      if (done) break;
      if (count++ < limit) profile.add(value);
      if (isOnce || kept.length < FIRST) kept.push(value);
      if (isOnce) characters += charactersIn(value);
    }
  } finally {
    progress.end();
    if (!isOnce) input.close();
  }
  const { fields, otherWidth, lineOfBackslashN } = profile;
  const all = async function* () {
    yield* kept.splice(0);
    yield* records;
  };
  const first = kept.slice(0, FIRST);
  return { fields, isComplete, first, otherWidth, lineOfBackslashN, records: isOnce ? all() : undefined };
}

const charactersIn = ({ text, cells = [] }: FileRecord): number =>
  text?.length ?? cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);

/** What is known about the fields so far. */
class FieldProfile {
  lineOfBackslashN: number | undefined;
  private readonly candidates: ReturnType<typeof candidatesFor>;
  private readonly columns: Field[] | undefined;
  private readonly members = new Map<string, Field>();
  /** By the number of fields, if it is not that of the header. */
  private readonly otherWidths = new Map<number, { count: number; line: number }>();
  private count = 0;

  constructor(header: readonly string[] | undefined, notation: Notation) {
    this.candidates = candidatesFor(notation);
    this.columns = header?.map((name) => this.newField(name));
  }

  get fields(): readonly Field[] {
    return this.columns ?? [...this.members.values()];
  }

  get otherWidth(): Scan['otherWidth'] {
    for (const [fields, { count, line }] of this.otherWidths) if (count * 2 > this.count) return { fields, line };
    return undefined;
  }

  add({ line, cells = [], text = '' }: FileRecord): void {
    this.count++;
    if (this.columns === undefined) return this.addMembers(text, line);
    if (!fitsHeader(cells, this.columns.length)) {
      const alike = this.otherWidths.get(cells.length);
      if (alike === undefined) this.otherWidths.set(cells.length, { count: 1, line });
      else alike.count++;
    }
    for (let i = 0; i < cells.length; i++) {
      const cell = cells[i];
      if (cell === '\\N') this.lineOfBackslashN ??= line;
      if (cell !== null && cell !== undefined) this.columns[i]?.inference.addText(cell, line);
    }
  }

  private addMembers(text: string, line: number): void {
    for (const [name, value] of membersOf(text) ?? []) {
      let field = this.members.get(name);
      if (field === undefined) {
        if (this.members.size >= MAX_FIELDS) {
          throw new UsageError(
            `Line ${line}: the records up to here have more than ${MAX_FIELDS} different fields`,
            'A table has at most 500 columns; put what differs from record to record into one JSON value',
          );
        }
        this.members.set(name, (field = this.newField(name)));
      }
      field.inference.addJson(value, line);
    }
  }

  private newField(name: string): Field {
    return { name, inference: new TypeInference(this.candidates) };
  }
}
