/** The first reading of a file: determines its fields and the types of their values, from all records or a sample. */
import type { ColumnType } from '../contract/column-types.js';
import { type Cell, fitsHeader } from './csv-reader.js';
import type { Notation } from './values.js';
import { membersOf, requireFewFields } from './json-records.js';
import type { FileRecord, Source } from './source.js';
import { candidatesFor } from './type-candidates.js';
import { TypeInference } from './type-inference.js';

export interface Field {
  readonly name: string;
  /** Set if the file declares it. */
  readonly type?: ColumnType | undefined;
  readonly inference: TypeInference;
}

interface OtherWidth {
  readonly fields: number;
  /** The first such record, and its line. */
  readonly cells: readonly Cell[];
  readonly line: number;
}

export interface Scan {
  /** In order; for JSON, those that occurred. */
  readonly fields: readonly Field[];
  /** Whether the types are inferred from all records. */
  readonly isComplete: boolean;
  /** The first few records. */
  readonly firstRecords: readonly FileRecord[];
  /** Set if more than half of the records have the same number of fields, and it differs from the header's. */
  readonly otherWidth: OtherWidth | undefined;
  /** The first line whose record does not fit the header. */
  readonly lineOfMisfit: number | undefined;
  /** The first line with `\N`, which Postgres and MySQL write for NULL. */
  readonly lineOfBackslashN: number | undefined;
  /** All records, if the file can be read only once; otherwise undefined, and the file is closed. */
  readonly records: AsyncGenerator<FileRecord, void> | undefined;
}

/** Limits for input that can be read only once, because it is kept in memory. */
const KEPT = { records: 10_000, characters: 16 * 1024 * 1024 };
const FIRST = 3;

/**
 * Shows the progress of a scan.
 * @returns a function that ends this
 */
export type StartProgress = (label: string, progress: () => { rows: number; share: number | null }) => () => void;

interface ScanOptions {
  notation: Notation;
  /** The number of records from which to infer types. */
  sample: number;
  /** Also reads the other records, so that a file with an error there is rejected before any of it is sent. */
  toTheEnd: boolean;
  watch: StartProgress;
}

export async function scan(
  { input, header, types, records }: Source,
  { notation, sample, toTheEnd, watch }: ScanOptions,
): Promise<Scan> {
  const { size } = input;
  const isOnce = size === null;
  const limit = isOnce ? Math.min(sample, KEPT.records) : sample;
  const samples: FileRecord[] = [];
  let [count, characters] = [0, 0];
  let isComplete = false;
  let profile: FieldProfile;
  const endWatch = watch(input.label, () => ({
    rows: count,
    share: size === null ? null : input.bytesRead() / size,
  }));
  try {
    requireFewFields(header?.length ?? types?.size ?? 0, `${input.label} has`);
    profile = new FieldProfile(header, types ?? new Map(), notation);
    while (isOnce ? count < limit && characters < KEPT.characters : count < limit || toTheEnd) {
      const { value, done } = await records.next();
      isComplete = done === true && count <= limit;
      if (done) break;
      if (count++ < limit) profile.add(value);
      if (isOnce || samples.length < FIRST) samples.push(value);
      if (isOnce) characters += charactersIn(value);
    }
  } finally {
    endWatch();
    if (!isOnce) input.close();
  }
  const { fields, otherWidth, lineOfMisfit, lineOfBackslashN } = profile;
  const all = async function* () {
    yield* samples.splice(0);
    yield* records;
  };
  const first = samples.slice(0, FIRST);
  return {
    fields,
    isComplete,
    firstRecords: first,
    otherWidth,
    lineOfMisfit,
    lineOfBackslashN,
    records: isOnce ? all() : undefined,
  };
}

const charactersIn = ({ text, cells = [] }: FileRecord): number =>
  text?.length ?? cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);

/** What is known about the fields so far. */
class FieldProfile {
  lineOfMisfit: number | undefined;
  lineOfBackslashN: number | undefined;
  private readonly candidates: ReturnType<typeof candidatesFor>;
  private readonly columns: Field[] | undefined;
  private readonly members = new Map<string, Field>();
  /** By the number of fields, if it differs from the header's. */
  private readonly otherWidths = new Map<number, { count: number; line: number; cells: readonly Cell[] }>();
  private count = 0;

  constructor(header: readonly string[] | undefined, types: NonNullable<Source['types']>, notation: Notation) {
    this.candidates = candidatesFor(notation);
    this.columns = header?.map((name) => this.newField(name));
    for (const [name, type] of types) this.members.set(name, this.newField(name, type));
  }

  get fields(): readonly Field[] {
    return this.columns ?? [...this.members.values()];
  }

  get otherWidth(): Scan['otherWidth'] {
    const [most] = [...this.otherWidths].filter(([, { count }]) => count * 2 > this.count);
    return most === undefined ? undefined : { fields: most[0], ...most[1] };
  }

  add({ line, cells = [], text = '' }: FileRecord): void {
    this.count++;
    if (this.columns === undefined) return this.addMembers(text, line);
    if (!fitsHeader(cells, this.columns.length)) {
      this.lineOfMisfit ??= line;
      const alike = this.otherWidths.get(cells.length);
      if (alike === undefined) this.otherWidths.set(cells.length, { count: 1, line, cells });
      else alike.count++;
      // The record will be refused, so its values do not count.
      return;
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
        this.members.set(name, (field = this.newField(name)));
        requireFewFields(this.members.size, `Line ${line}: the records up to here have`);
      }
      field.inference.addJson(value, line);
    }
  }

  private newField(name: string, type?: ColumnType): Field {
    return { name, type, inference: new TypeInference(this.candidates) };
  }
}
