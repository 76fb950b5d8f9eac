/** What the records of a file hold: its fields, and what their values could be; from all of it, or a sample. */
import { basename } from 'node:path';
import { UsageError } from '../remote/outcome.js';
import { ProgressLine } from '../remote/progress.js';
import type { Notation } from './cell-values.js';
import { fitsHeads } from './csv.js';
import { candidatesFor } from './candidates.js';
import { ColumnGuess } from './guess.js';
import { membersOf } from './json-members.js';
import type { FileRecord, Source } from './source.js';

export interface Field {
  readonly head: string;
  readonly guess: ColumnGuess;
}

export interface Survey {
  /** In order; of JSON those that were seen. */
  readonly fields: readonly Field[];
  /** Whether every record was looked at. */
  readonly isWhole: boolean;
  /** Some of the first records, to show. */
  readonly first: readonly FileRecord[];
  /** Of delimited text whose records have another number of fields than the heads, more than half of them the same one. */
  readonly shape: Shape | undefined;
  /** All records, where the file can be read but once; else undefined, and the file is closed. */
  readonly records: AsyncGenerator<FileRecord, void> | undefined;
}

export interface Shape {
  /** Of such a record. */
  readonly fields: number;
  /** Where the first of them stands. */
  readonly line: number;
}

/** Of a file that can be read but once, which are held in memory. */
const HELD = { records: 10_000, characters: 16 * 1024 * 1024 };
/** A table has at most 500 columns, but some of the fields may be left out. */
const MAX_FIELDS = 10_000;
const SHOWN = 3;

/**
 * @param most records to guess from
 * @param toTheEnd reads the others as well, so that a file that is broken there is refused before any of it is sent
 */
export async function survey(source: Source, notation: Notation, most: number, toTheEnd: boolean): Promise<Survey> {
  const { input, heads, records } = source;
  const isOnce = input.size === null;
  const limit = isOnce ? Math.min(most, HELD.records) : most;
  const seen = new Seen(heads, notation);
  const held: FileRecord[] = [];
  let count = 0;
  let isWhole = false;
  const progress = new ProgressLine(
    () => {
      return { rows: count, share: input.size === null ? null : input.read() / input.size, refused: 0 };
    },
    `Looking through ${basename(input.path)}: `,
  );
  try {
    const isEnough = (characters: number) =>
      isOnce ? count >= limit || characters >= HELD.characters : count >= limit && !toTheEnd;
    for (let characters = 0; !isEnough(characters); count++) {
      const { value, done } = await records.next();
      isWhole = done === true && count <= limit;
      if (done) break;
      if (count < limit) seen.add(value);
      if (isOnce || held.length < SHOWN) held.push(value);
      if (isOnce) characters += charactersOf(value);
    }
  } finally {
    progress.end();
    if (!isOnce) input.close();
  }
  const first = held.slice(0, SHOWN);
  const { fields, shape } = seen;
  return { fields, isWhole, first, shape, records: isOnce ? after(held, records) : undefined };
}

async function* after(held: FileRecord[], others: AsyncIterable<FileRecord>): AsyncGenerator<FileRecord, void> {
  yield* held.splice(0);
  yield* others;
}

const charactersOf = ({ text, cells = [] }: FileRecord): number =>
  text?.length ?? cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);

class Seen {
  readonly #candidates: ReturnType<typeof candidatesFor>;
  readonly #known: Field[] | undefined;
  readonly #found = new Map<string, Field>();
  /** By the number of their fields, where that is not the one of the heads. */
  readonly #misshapen = new Map<number, { count: number; line: number }>();
  #count = 0;

  constructor(heads: readonly string[] | undefined, notation: Notation) {
    this.#candidates = candidatesFor(notation);
    this.#known = heads?.map((head) => this.#field(head));
  }

  get fields(): readonly Field[] {
    return this.#known ?? [...this.#found.values()];
  }

  get shape(): Shape | undefined {
    for (const [fields, { count, line }] of this.#misshapen) if (count * 2 > this.#count) return { fields, line };
    return undefined;
  }

  add({ line, cells, text = '' }: FileRecord): void {
    this.#count++;
    if (this.#known === undefined) return this.#addMembers(text, line);
    if (cells === undefined) return;
    if (!fitsHeads(cells, this.#known.length)) this.#addMisshapen(cells.length, line);
    for (let i = 0; i < cells.length; i++) {
      const cell = cells[i];
      if (cell !== null && cell !== undefined) this.#known[i]?.guess.addText(cell, line);
    }
  }

  #addMisshapen(fields: number, line: number): void {
    const alike = this.#misshapen.get(fields);
    if (alike === undefined) this.#misshapen.set(fields, { count: 1, line });
    else alike.count++;
  }

  #addMembers(text: string, line: number): void {
    for (const [head, node] of membersOf(text) ?? []) {
      let field = this.#found.get(head);
      if (field === undefined) {
        if (this.#found.size >= MAX_FIELDS) {
          throw new UsageError(
            `Line ${line}: by here the records have more than ${MAX_FIELDS} different fields`,
            'A table has at most 500 columns; what differs from record to record belongs into one JSON value',
          );
        }
        this.#found.set(head, (field = this.#field(head)));
      }
      field.guess.addJson(node, line);
    }
  }

  #field(head: string): Field {
    return { head, guess: new ColumnGuess(this.#candidates) };
  }
}
