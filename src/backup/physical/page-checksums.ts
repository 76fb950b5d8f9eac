/**
 * Verifies the checksums of the pages that a backup copies, as `pg_basebackup` does. Postgres verifies a page only when
 * it reads it, so the pages of a table that nobody reads can rot unnoticed until no backup without the damage is left.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { counted } from '../../contract/message-text.js';
import { parseLsn } from './wal.js';

const PAGE_BYTES = 8_192;

/**
 * Pages in each file of a relation; the next ones are in `.1`, `.2` and so on (Postgres manual, Database File Layout).
 */
const SEGMENT_PAGES = 131_072;

/** The main fork, free space map, visibility map or init fork of a relation. No other files consist of pages. */
const FILE_OF_PAGES = /^(?:base\/\d+|global)\/\d+(?:_(?:fsm|vm|init))?(?:\.(\d+))?$/;

/** FNV-1a with 32 sums side by side, each with a basis of its own (storage/checksum_impl.h of Postgres). */
const PRIME = 16_777_619;
const SUMS = 32;
const BASES = Int32Array.of(
  ...[0x5b1f36e9, 0xb8525960, 0x02ab50aa, 0x1de66d2a, 0x79ff467a, 0x9bb9f8a3, 0x217e7cd2, 0x83e13d2c],
  ...[0xf8d4474f, 0xe39eb970, 0x42c6ae16, 0x993216fa, 0x7b093b5d, 0x98daff3c, 0xf718902a, 0x0b1c9cdb],
  ...[0xe58f764b, 0x187636bc, 0x5d7b3bb1, 0xe73de7de, 0x92bec979, 0xcca6c0b2, 0x304a0979, 0x85aa43d4],
  ...[0x783125bb, 0x6ca8eaa2, 0xe407eac6, 0x4b5cfc3e, 0x9fbf8c76, 0x15ca20be, 0xf2ca9fd3, 0x959bd756],
);

const mixed = (sum: number, word: number): number => {
  const value = sum ^ word;
  return Math.imul(value, PRIME) ^ (value >>> 17);
};

/** Eight sums at a time fit into registers: several gigabytes a second, so no thread is needed. */
function checksum(words: Int32Array, block: number): number {
  let all = 0;
  for (let first = 0; first < SUMS; first += 8) {
    let [a, b, c, d, e, f, g, h] = BASES.subarray(first, first + 8) as unknown as Eight;
    for (let at = first; at < words.length; at += SUMS) {
      a = mixed(a, words[at] as number);
      b = mixed(b, words[at + 1] as number);
      c = mixed(c, words[at + 2] as number);
      d = mixed(d, words[at + 3] as number);
      e = mixed(e, words[at + 4] as number);
      f = mixed(f, words[at + 5] as number);
      g = mixed(g, words[at + 6] as number);
      h = mixed(h, words[at + 7] as number);
    }
    // Two more rounds, of zeros.
    for (const sum of [a, b, c, d, e, f, g, h]) all ^= mixed(mixed(sum, 0), 0);
  }
  return (((all ^ block) >>> 0) % 65_535) + 1;
}

type Eight = [number, number, number, number, number, number, number, number];

/** A copy of the page at hand, because the checksum counts as zero in its own sum. */
const words = new Int32Array(PAGE_BYTES / 4);
const bytes = new Uint8Array(words.buffer);
const halves = new Uint16Array(words.buffer);

/** The place of `pd_checksum` among the 2-byte words of a page (storage/bufpage.h of Postgres). */
const CHECKSUM_AT = 4;

/** @param block its number in the relation's fork */
export function isValidPage(page: Uint8Array, block: number): boolean {
  bytes.set(page);
  const storedChecksum = halves[CHECKSUM_AT] as number;
  // A page that was added and not written yet has no checksum. Any other has one that is not 0.
  if (storedChecksum === 0) return words.every((word) => word === 0);
  halves[CHECKSUM_AT] = 0;
  return checksum(words, block) === storedChecksum;
}

/** The WAL position of the last change of the page. */
const lsnOf = (page: Buffer): bigint => (BigInt(page.readUInt32LE(0)) << 32n) | BigInt(page.readUInt32LE(4));

interface PagePosition {
  readonly path: string;
  readonly block: number;
}

/** A page that was written while it was read has been written completely after this time. */
const TORN_MS = 10;

/** Maximum number of pages that an error names. */
const NAMED = 5;

/** The project's server has pages that Postgres can no longer read. */
export class DamagedPages extends Error {
  constructor(readonly places: readonly PagePosition[]) {
    const examples = places.slice(0, NAMED).map(({ path, block }) => `block ${block} of ${path}`);
    const pages = `${counted(places.length, 'page')} of its files ${places.length === 1 ? 'is' : 'are'} damaged`;
    super(`${pages}, by the checksums: ${examples.join(', ')}${places.length > NAMED ? ', …' : ''}`);
    this.name = 'DamagedPages';
  }

  /** For the log. */
  get found(): object {
    return { pages: this.places.length, first: this.places.slice(0, NAMED) };
  }
}

/** The verification of all pages of one backup. */
export class PageCheck {
  private readonly damaged: PagePosition[] = [];
  private readonly newer: (PagePosition & { readonly lsn: bigint })[] = [];
  private readonly start: bigint;

  /** @param start LSN of the beginning of the backup. Later changes are in its WAL, and replace pages as a whole. */
  constructor(start: string) {
    this.start = parseLsn(start);
  }

  /**
   * Passes a file's content on.
   * @param path below the data directory
   * @param readPage reads a page once more. Its result is passed on instead, if the first one was read while the server
   * was writing it
   */
  async *verified(
    path: string,
    content: AsyncIterable<Buffer>,
    readPage: (position: number, length: number) => Promise<Buffer>,
  ): AsyncGenerator<Buffer> {
    const [isOfPages, segment = 0] = FILE_OF_PAGES.exec(path) ?? [];
    if (isOfPages === undefined) {
      yield* content;
      return;
    }
    const first = Number(segment) * SEGMENT_PAGES;
    let [position, rest]: [number, Buffer] = [0, Buffer.alloc(0)];
    for await (const part of content) {
      const whole = rest.length === 0 ? part : Buffer.concat([rest, part]);
      const end = whole.length - (whole.length % PAGE_BYTES);
      for (let at = 0; at < end; at += PAGE_BYTES) {
        const page = whole.subarray(at, at + PAGE_BYTES);
        const place = { path, block: first + (position + at) / PAGE_BYTES };
        if (isValidPage(page, place.block) || this.isNewer(page, place)) continue;
        await sleep(TORN_MS);
        const again = await readPage(position + at, PAGE_BYTES);
        // If the page is gone, the relation has been truncated meanwhile, as the WAL says.
        if (again.length < PAGE_BYTES) continue;
        if (isValidPage(again, place.block) || this.isNewer(again, place)) page.set(again);
        else this.damaged.push(place);
      }
      yield whole.subarray(0, end);
      position += end;
      rest = whole.subarray(end);
    }
    if (rest.length > 0) {
      // The end of a file that is being extended, or of one that a full disk kept from it: Postgres ignores both.
      if (rest.some((byte) => byte !== 0))
        await this.checkEnd({ path, block: first + position / PAGE_BYTES }, position, readPage);
      yield rest;
    }
  }

  /** @param stop LSN of the end of the backup. @returns the damaged pages; null: none */
  damageUntil(stop: string): DamagedPages | null {
    const last = parseLsn(stop);
    // No change is later than the backup: then the position itself is damaged.
    const damaged = [...this.damaged, ...this.newer.filter(({ lsn }) => lsn > last)];
    return damaged.length === 0 ? null : new DamagedPages(damaged);
  }

  private async checkEnd(
    place: PagePosition,
    position: number,
    readPage: (at: number, length: number) => Promise<Buffer>,
  ) {
    await sleep(TORN_MS);
    const page = await readPage(position, PAGE_BYTES);
    const isOver = page.length === PAGE_BYTES || page.every((byte) => byte === 0);
    if (!isOver && !this.isNewer(page, place)) this.damaged.push(place);
  }

  private isNewer(page: Buffer, place: PagePosition): boolean {
    const lsn = page.length < 8 ? 0n : lsnOf(page);
    if (lsn < this.start) return false;
    this.newer.push({ ...place, lsn });
    return true;
  }
}
