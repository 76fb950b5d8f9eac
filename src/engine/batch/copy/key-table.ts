/** Finds a record's key among a table's columns by its bytes, without making a string of it. */
import { BACKSLASH, QUOTE, SPACE } from './bytes.js';

export class KeyTable {
  /** Index of a key plus one, by its hash; a free place is 0. */
  private readonly places: Uint16Array;
  private readonly mask: number;

  /** @param keys as they stand in JSON, quotes included */
  constructor(private readonly keys: readonly Uint8Array[]) {
    let size = 16;
    while (size < keys.length * 4) size *= 2;
    this.places = new Uint16Array(size);
    this.mask = size - 1;
    keys.forEach((key, index) => {
      let hash = 0;
      for (let i = 1; i < key.length - 1; i++) hash = next(hash, key[i] as number);
      let place = hash & this.mask;
      while (this.places[place] !== 0) place = (place + 1) & this.mask;
      this.places[place] = index + 1;
    });
  }

  /** Whether the key of this index stands at `at`. */
  standsAt(index: number, bytes: Uint8Array, at: number): boolean {
    const key = this.keys[index] as Uint8Array;
    for (let i = 0; i < key.length; i++) if (bytes[at + i] !== key[i]) return false;
    return true;
  }

  /** The index of the key that stands at `at`, its opening quote; -1 where it is none of them, or has an escape. */
  find(bytes: Uint8Array, at: number): number {
    if (bytes[at] !== QUOTE) return -1;
    let hash = 0;
    for (let i = at + 1; ; i++) {
      const byte = bytes[i];
      if (byte === QUOTE) break;
      if (byte === undefined || byte === BACKSLASH || byte < SPACE) return -1;
      hash = next(hash, byte);
    }
    for (let place = hash & this.mask; this.places[place] !== 0; place = (place + 1) & this.mask) {
      const index = (this.places[place] as number) - 1;
      if (this.standsAt(index, bytes, at)) return index;
    }
    return -1;
  }

  /** Bytes of a key, quotes included. */
  lengthOf(index: number): number {
    return (this.keys[index] as Uint8Array).length;
  }
}

/** FNV-1a (32 bits): names of columns are few and not chosen to collide, and a collision only costs a comparison. */
const next = (hash: number, byte: number): number => Math.imul(hash ^ byte, 0x01000193);
