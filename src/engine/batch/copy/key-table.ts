/** Finds a record's key among a table's columns by its bytes, without making a string of it. */
import { QUOTE } from './bytes.js';
import { firstMarked, keyStops, lowBytes } from '../../../postgres/words.js';

export class KeyTable {
  /** The column of each spelling, and its bytes, quotes included. */
  readonly columns: Uint16Array;
  readonly lengths: Uint16Array;
  /** The spelling that came behind this one the last time; behind none, at the end, the first of a record. */
  readonly followers: Uint16Array;
  /** In the place of a spelling: none. */
  readonly none: number;
  /** All spellings in words, each beginning at its start, its last word filled up with zeros under its mask. */
  private readonly words: Int32Array;
  private readonly starts: Uint32Array;
  private readonly masks: Int32Array;
  /** Index of a spelling plus one, by the upper bits of its hash; a free place is 0. */
  private readonly places: Uint16Array;
  private readonly shift: number;

  /** @param names of the columns; none that JSON can only write with an escape */
  constructor(names: readonly string[]) {
    const spellings = names.flatMap((name, column) => spellingsOf(name).map((bytes) => ({ column, bytes })));
    const count = spellings.length;
    this.none = count;
    this.columns = Uint16Array.from(spellings, ({ column }) => column);
    this.lengths = Uint16Array.from(spellings, ({ bytes }) => bytes.length);
    this.followers = Uint16Array.from({ length: count + 1 }, (_, i) => (i + 1) % (count + 1));
    this.starts = new Uint32Array(count + 1);
    this.masks = Int32Array.from(spellings, ({ bytes }) => lowBytes(-1, bytes.length & 3) || -1);
    spellings.forEach(
      ({ bytes }, i) => (this.starts[i + 1] = (this.starts[i] as number) + Math.ceil(bytes.length / 4)),
    );
    this.words = new Int32Array(this.starts[count] as number);
    const bits = Math.max(4, Math.ceil(Math.log2(count * 4)));
    this.places = new Uint16Array(2 ** bits);
    this.shift = 32 - bits;
    spellings.forEach(({ bytes }, index) => this.add(index, bytes));
  }

  private add(index: number, bytes: Uint8Array): void {
    const { words, places } = this;
    const view = new DataView(new ArrayBuffer(bytes.length + 8));
    new Uint8Array(view.buffer).set(bytes);
    const start = this.starts[index] as number;
    for (let at = 0; at < bytes.length; at += 4) words[start + at / 4] = view.getInt32(at, true);
    let place = hashAt(view, 1) >>> this.shift;
    while (places[place] !== 0) place = (place + 1) & (places.length - 1);
    places[place] = index + 1;
  }

  /** Whether this spelling stands at `at`. */
  standsAt(index: number, view: DataView, at: number): boolean {
    const { words, starts } = this;
    const last = (starts[index + 1] as number) - 1;
    for (let i = starts[index] as number; i < last; i++, at += 4)
      if (view.getInt32(at, true) !== words[i]) return false;
    return (view.getInt32(at, true) & (this.masks[index] as number)) === words[last];
  }

  /** The index of the spelling that stands at `at`; -1 where it is none of them. */
  find(view: DataView, at: number): number {
    if (view.getUint8(at) !== QUOTE) return -1;
    const { places } = this;
    const mask = places.length - 1;
    for (let place = hashAt(view, at + 1) >>> this.shift; places[place] !== 0; place = (place + 1) & mask) {
      const index = (places[place] as number) - 1;
      if (this.standsAt(index, view, at)) return index;
    }
    return -1;
  }
}

/** As it is, and, where it is not all ASCII, with escapes as writers of ASCII alone spell them, in small or capital digits. */
function spellingsOf(name: string): Buffer[] {
  const plain = JSON.stringify(name);
  const escaped = (spell: (digits: string) => string) =>
    plain.replace(/[^\0-\x7f]/g, (unit) => `\\u${spell(unit.charCodeAt(0).toString(16).padStart(4, '0'))}`);
  const spellings = [plain, escaped((digits) => digits), escaped((digits) => digits.toUpperCase())];
  return [...new Set(spellings)].map((text) => Buffer.from(text));
}

/**
 * Multiplicative hash of the words up to the quote (or to what no key has), of which the upper bits are good: names of
 * columns are few and not chosen to collide, and a collision only costs a comparison.
 */
function hashAt(view: DataView, at: number): number {
  let hash = 0;
  for (;;) {
    const word = view.getInt32(at, true);
    const stops = keyStops(word);
    if (stops !== 0) return Math.imul(hash ^ lowBytes(word, firstMarked(stops)), GOLDEN_RATIO) >>> 0;
    hash = Math.imul(hash ^ word, GOLDEN_RATIO);
    at += 4;
  }
}

const GOLDEN_RATIO = 0x9e3779b1 | 0;
