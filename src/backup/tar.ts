/**
 * The container of a backup: a tar file (POSIX.1-1988 ustar) of regular files, which any `tar` can unpack. Libraries do
 * not fit: they need a member's size before its content, so a dump would have to be written twice; and they read from
 * the start, so one project could not be read from a large file without all others before it.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';

const BLOCK = 512;

/** Bytes for the name, and for its folders. */
const NAME_BYTES = 99;
const PREFIX_BYTES = 154;

/** From this size on, octal digits do not suffice, and the size is binary, as in GNU tar and bsdtar. */
const OCTAL_LIMIT = 8 ** 11;

export interface Member {
  readonly name: string;
  /** The offset of its content in the file, in bytes. */
  readonly offset: number;
  readonly size: number;
}

/** The file is not a backup, or an incomplete one. */
export class BadBackup extends Error {}

/** Appends members to an empty file. */
export class TarWriter {
  private end = 0;
  private members: (Member & { readonly sha256: string })[] = [];
  private lastGroup: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly file: FileHandle,
    private readonly modified: Date,
  ) {}

  /** SHA-256 of each member's content in hex, by name. */
  get sums(): Map<string, string> {
    return new Map(this.members.map(({ name, sha256 }) => [name, sha256]));
  }

  readonly add: AddMember = async (name, content) => {
    const start = this.end;
    const offset = start + BLOCK;
    const hash = createHash('sha256');
    await this.append(header(name, 0, this.modified));
    for await (const part of content) {
      hash.update(part);
      await this.append(part);
    }
    const size = this.end - offset;
    await this.append(Buffer.alloc(padding(size)));
    await write(this.file, header(name, size, this.modified), start);
    const member = { name, offset, size, sha256: hash.digest('hex') };
    this.members.push(member);
    return member;
  };

  get contents(): readonly Member[] {
    return this.members;
  }

  /** Adds the members of a group, or none if `write` fails. Groups are written one after the other. */
  group<T>(write: () => Promise<T>): Promise<T> {
    const group = this.lastGroup.then(async () => {
      const start = this.end;
      try {
        return await write();
      } catch (error) {
        await this.truncate(start);
        throw error;
      }
    });
    // The caller of this group gets its error; the next one only waits.
    this.lastGroup = group.catch(() => {});
    return group;
  }

  /** Ends the file with two blocks of zeros, and flushes it. */
  async finish(): Promise<void> {
    await this.append(Buffer.alloc(2 * BLOCK));
    await this.file.sync();
  }

  /** Removes everything after this position, including an incomplete member. */
  private async truncate(position: number): Promise<void> {
    this.end = position;
    this.members = this.members.filter(({ offset }) => offset < position);
    await this.file.truncate(position);
  }

  private async append(bytes: Buffer): Promise<void> {
    await write(this.file, bytes, this.end);
    this.end += bytes.length;
  }
}

/**
 * Adds a member to a backup.
 * @param modified when its original was last written, for backups that keep it
 */
export type AddMember = (
  name: string,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
  modified?: Date,
) => Promise<Member>;

/** A backup that receives members. */
export interface Saving {
  readonly add: AddMember;
  /** Reads what was just added. */
  readonly read: (member: Member) => Readable;
  readonly signal: AbortSignal;
}

async function write(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let offset = 0; offset < bytes.length;) {
    offset += (await file.write(bytes, offset, bytes.length - offset, position + offset)).bytesWritten;
  }
}

const padding = (size: number): number => (BLOCK - (size % BLOCK)) % BLOCK;

/**
 * The fields of a header: tar(5), `ustar`.
 * @throws Error if the name is too long
 */
export function header(name: string, size: number, modified: Date): Buffer {
  const block = Buffer.alloc(BLOCK);
  // A long name is split at a slash, which is not written.
  const slash =
    Buffer.byteLength(name) <= NAME_BYTES ? -1 : name.indexOf('/', Buffer.byteLength(name) - NAME_BYTES - 1);
  const [prefix, rest] = [name.slice(0, Math.max(slash, 0)), name.slice(slash + 1)];
  if (Buffer.byteLength(rest) > NAME_BYTES || Buffer.byteLength(prefix) > PREFIX_BYTES) {
    throw new Error(`The name ${name} is too long for a tar file`);
  }
  block.write(rest, 0);
  block.write('0000600\u00000000000\u00000000000\0', 100, 'latin1'); // mode, user, group
  if (size < OCTAL_LIMIT) block.write(octal(size, 11), 124, 'latin1');
  else {
    block.writeUInt8(0x80, 124);
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  block.write(octal(Math.floor(modified.getTime() / 1_000), 11), 136, 'latin1');
  block.write('0', 156); // a regular file
  block.write('ustar\u000000', 257, 'latin1');
  block.write(prefix, 345);
  block.write(`${octal(checksum(block), 6)} `, 148, 'latin1');
  return block;
}

const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`;

/** The sum of all bytes; those of the checksum itself count as spaces. */
function checksum(block: Buffer): number {
  return block.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0);
}

/**
 * All members by name. Reads only the headers.
 * @throws BadBackup
 */
export async function readMembers(file: FileHandle): Promise<Map<string, Member>> {
  const members = new Map<string, Member>();
  const { size: end } = await file.stat();
  for (let position = 0; ;) {
    const block = await readBlock(file, position, end);
    if (block.every((byte) => byte === 0)) {
      const last = await readBlock(file, position + BLOCK, end);
      if (last.some((byte) => byte !== 0)) throw new BadBackup('It is damaged');
      return members;
    }
    const { name, size } = parseHeader(block);
    if (members.has(name)) throw new BadBackup(`It has "${name}" twice`);
    members.set(name, { name, offset: position + BLOCK, size });
    position += BLOCK + size + padding(size);
  }
}

async function readBlock(file: FileHandle, position: number, end: number): Promise<Buffer> {
  if (position === 0 && end < BLOCK) throw new BadBackup('It is not a backup of cdp');
  if (position + BLOCK > end) throw new BadBackup('It is incomplete: it was not written, or not copied, to its end');
  const { buffer } = await file.read(Buffer.alloc(BLOCK), 0, BLOCK, position);
  return buffer;
}

/** Accepts only tar files as this program writes them. */
function parseHeader(block: Buffer): { name: string; size: number } {
  const text = (from: number, to: number) => block.toString('latin1', from, to).replace(/\0.*$/s, '');
  if (text(257, 263) !== 'ustar') throw new BadBackup('It is not a backup of cdp');
  if (Number.parseInt(text(148, 156), 8) !== checksum(block)) throw new BadBackup('It is damaged');
  const name = [text(345, 500), text(0, 100)].filter((part) => part !== '').join('/');
  const size = block[124] === 0x80 ? Number(block.readBigUInt64BE(128)) : Number.parseInt(text(124, 136), 8);
  if (text(156, 157) !== '0' || !Number.isSafeInteger(size) || size < 0) {
    throw new BadBackup('It is not a backup of cdp');
  }
  return { name, size };
}

export function readMember(path: string, { offset, size }: Member): Readable {
  // createReadStream has no empty range.
  return size === 0 ? Readable.from([]) : createReadStream(path, { start: offset, end: offset + size - 1 });
}
