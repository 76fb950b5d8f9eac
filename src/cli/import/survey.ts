/** What the records of a file hold: its fields, and what their values could be; from all of it, or a sample. */
import { readJson, type JsonMember } from '../../engine/json.js';
import { UsageError } from '../remote/outcome.js';
import { ProgressLine } from '../remote/progress.js';
import type { Notation } from './cell-values.js';
import { candidatesFor, ColumnGuess } from './guess.js';
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
  /** All records, where the file can be read but once; else undefined, and the file is closed. */
  readonly records: AsyncGenerator<FileRecord, void> | undefined;
}

/** Of a file that can be read but once, which are held in memory. */
const HELD = { records: 10_000, characters: 16 * 1024 * 1024 };
/** A table has at most 500 columns, but some of the fields may be left out. */
const MOST_FIELDS = 10_000;
const SHOWN = 3;

/** @param most records to look at */
export async function survey(source: Source, notation: Notation, most: number): Promise<Survey> {
  const { input, heads, records } = source;
  const isOnce = input.size === null;
  const limit = isOnce ? Math.min(most, HELD.records) : most;
  const seen = new Seen(heads, notation);
  const held: FileRecord[] = [];
  let count = 0;
  let isWhole = false;
  const progress = new ProgressLine(() => {
    return { rows: count, share: input.size === null ? null : input.read() / input.size, refused: 0 };
  }, `Looking through ${input.path}: `);
  try {
    for (let characters = 0; count < limit && (!isOnce || characters < HELD.characters); count++) {
      const { value, done } = await records.next();
      isWhole = done === true;
      if (done) break;
      seen.add(value);
      if (isOnce || held.length < SHOWN) held.push(value);
      if (isOnce) characters += charactersOf(value);
    }
  } finally {
    progress.end();
    if (!isOnce) input.close();
  }
  const first = held.slice(0, SHOWN);
  return { fields: seen.fields, isWhole, first, records: isOnce ? after(held, records) : undefined };
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

  constructor(heads: readonly string[] | undefined, notation: Notation) {
    this.#candidates = candidatesFor(notation);
    this.#known = heads?.map((head) => this.#field(head));
  }

  get fields(): readonly Field[] {
    return this.#known ?? [...this.#found.values()];
  }

  add({ line, cells, text = '' }: FileRecord): void {
    if (this.#known === undefined) return this.#addMembers(text, line);
    if (cells === undefined) return;
    for (let i = 0; i < cells.length; i++) {
      const cell = cells[i];
      if (cell !== null && cell !== undefined) this.#known[i]?.guess.addText(cell, line);
    }
  }

  #addMembers(text: string, line: number): void {
    for (const [head, node] of membersOf(text) ?? []) {
      let field = this.#found.get(head);
      if (field === undefined) {
        if (this.#found.size >= MOST_FIELDS) {
          throw new UsageError(
            `Line ${line}: by here the records have more than ${MOST_FIELDS} different fields`,
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

/** The members of an object, values with all their digits; undefined where the text is not a JSON object. */
export function membersOf(text: string): readonly JsonMember[] | undefined {
  try {
    const { root } = readJson(Buffer.from(text));
    return root.kind === 'object' ? root.members : undefined;
  } catch {
    return undefined;
  }
}
