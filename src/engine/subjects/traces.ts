/** Recognises a person in what is no column: refused records, stored responses, keys. */
import { normalized } from '../../contract/subjects.js';
import { sql, type Fragment } from '../../pg/index.js';
import { SEGMENT_TABLES } from '../segments/segment-sql.js';
import type { Values } from './find-subject.js';
import type { Subjects } from './subject-tables.js';

/** In free text, shorter values mean too many other things. */
const FREE_TEXT_CHARACTERS = 6;

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}]/u.test(character);

export class Traces {
  /** All values, without case. */
  readonly all: readonly string[];
  /** Those that are looked for in any text. */
  readonly distinct: readonly string[];
  /** Values by table and column. */
  private readonly byTable: ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

  constructor(subjects: Subjects, values: Values) {
    const all = new Set([...values.values()].flatMap((some) => [...some]).map(caseless));
    this.all = [...all];
    this.distinct = this.all.filter((value) => value.length >= FREE_TEXT_CHARACTERS);
    this.byTable = new Map([
      // Any identifier may be the key of a segment.
      ...SEGMENT_TABLES.map((table) => [table, new Map([['key', all]])] as const),
      ...subjects.tables.map(
        ({ shown, columns }) =>
          [
            shown,
            new Map(
              columns.map(({ name, identifier }) => [name, new Set([...(values.get(identifier) ?? [])].map(caseless))]),
            ),
          ] as const,
      ),
    ]);
  }

  /** Whether a text contains one of the values, as a word of its own. */
  isIn(text: string): boolean {
    const searched = caseless(text);
    return this.distinct.some((value) => {
      for (let at = searched.indexOf(value); at !== -1; at = searched.indexOf(value, at + 1)) {
        const isBound = !isWordCharacter(searched[at - 1]) && !isWordCharacter(searched[at + value.length]);
        if (isBound) return true;
      }
      return false;
    });
  }

  /** The same in JSON, whose strings may be escaped. */
  isInJson(text: string): boolean {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return this.isIn(text);
    }
    return textsIn(value).some((one) => this.isIn(one));
  }

  /** Whether a record, as JSON, has a value in the column for it, or anywhere a longer one. */
  isInRecord(table: string, text: string): boolean {
    if (this.isInJson(text)) return true;
    const columns = this.byTable.get(table);
    if (columns === undefined) return false;
    let record: unknown;
    try {
      record = JSON.parse(text);
    } catch {
      return false;
    }
    if (typeof record !== 'object' || record === null) return false;
    return Object.entries(record).some(([name, value]) => {
      const isScalar = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
      return isScalar && columns.get(name)?.has(caseless(String(value))) === true;
    });
  }

  /**
   * A condition on a text: it may contain one of the values. Not sure for what JSON can write in several ways, which is
   * then read.
   * @param short whether short values count, too, as in a record of a declared table
   */
  mayBeIn(text: Fragment, short = false): Fragment {
    const some = short ? [...new Set([...this.distinct, ...this.shortValues()])] : this.distinct;
    return sql`(pg_catalog.strpos(${text}, E'\\\\') OPERATOR(pg_catalog.>) 0 OR ${text} OPERATOR(pg_catalog.~) '[^ -~]'
      OR EXISTS (SELECT FROM pg_catalog.unnest(${some}::pg_catalog.text[]) AS wanted
        WHERE pg_catalog.strpos(pg_catalog.lower(${text}), wanted) OPERATOR(pg_catalog.>) 0))`;
  }

  private shortValues(): string[] {
    return [...this.byTable.values()].flatMap((columns) => [...columns.values()].flatMap((values) => [...values]));
  }
}

/** Also for values that are compared exactly: a trace may be written in another way. */
const caseless = (text: string): string => normalized(text, 'caseless-1');

/** Every string and number in a JSON value, and every key. */
function textsIn(value: unknown): string[] {
  const texts: string[] = [];
  const left: unknown[] = [value];
  for (let one = left.pop(); one !== undefined; one = left.pop()) {
    if (typeof one === 'string') texts.push(one);
    else if (typeof one === 'number') texts.push(String(one));
    else if (Array.isArray(one)) left.push(...(one as unknown[]).map((item) => item ?? ''));
    else if (typeof one === 'object' && one !== null)
      for (const [key, item] of Object.entries(one)) {
        texts.push(key);
        left.push(item ?? '');
      }
  }
  return texts;
}
