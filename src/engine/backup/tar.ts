/**
 * The container of a backup: a tar file (POSIX.1-1988 ustar) of plain files, which any `tar` unpacks. Written here and not by a library
 * because a member's size stands before its content and is known after it: it is put in when the content is through, so that
 * nothing is ever written twice; and read by position, so that one project is found in a large file without reading the rest.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';

const BLOCK = 512;

/** Places for a name and for the folders before it. */
const NAME_BYTES = 99;
const PREFIX_BYTES = 154;

/** From here on, octal digits do not suffice and the size is written in binary, as GNU tar and bsdtar do. */
const OCTAL_LIMIT = 8 ** 11;

export interface Member {
  readonly name: string;
  /** Of its content, in bytes from the start of the file. */
  readonly offset: number;
  readonly size: number;
}

/** What is no tar file of ours, or not all of one. */
export class BadArchive extends Error {}

/** Appends members to an empty file. What was to be appended and failed is taken off again. */
export class TarWriter {
  private end = 0;

  constructor(
    private readonly file: FileHandle,
    private readonly modified: Date,
  ) {}

  /** @returns the content's SHA-256, hex, and its size */
  async add(name: string, content: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<Member & { sha256: string }> {
    const start = this.end;
    const offset = start + BLOCK;
    const hash = createHash('sha256');
    try {
      await this.append(header(name, 0, this.modified));
      for await (const part of content) {
        hash.update(part);
        await this.append(part);
      }
      const size = this.end - offset;
      await this.append(Buffer.alloc(padding(size)));
      await write(this.file, header(name, size, this.modified), start);
      return { name, offset, size, sha256: hash.digest('hex') };
    } catch (error) {
      // On a full disk this makes room; it is what failed first that counts.
      await this.truncate(start).catch(() => {});
      throw error;
    }
  }

  /** Where the next member begins. */
  get position(): number {
    return this.end;
  }

  /** Takes off what was appended since {@link position} was this. */
  async truncate(position: number): Promise<void> {
    this.end = position;
    await this.file.truncate(position);
  }

  /** Two blocks of zeros end a tar file. Afterwards all of it is on the disk. */
  async finish(): Promise<void> {
    await this.append(Buffer.alloc(2 * BLOCK));
    await this.file.sync();
  }

  private async append(bytes: Buffer): Promise<void> {
    await write(this.file, bytes, this.end);
    this.end += bytes.length;
  }
}

/** Adds a member. */
export type Add = TarWriter['add'];

async function write(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    done += (await file.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
  }
}

const padding = (size: number): number => (BLOCK - (size % BLOCK)) % BLOCK;

/** Fields and their places: POSIX.1-1988, `ustar` (tar(5)). */
export function header(name: string, size: number, modified: Date): Buffer {
  const block = Buffer.alloc(BLOCK);
  // A long name is parted at a slash, which is not written.
  const slash =
    Buffer.byteLength(name) <= NAME_BYTES ? -1 : name.indexOf('/', Buffer.byteLength(name) - NAME_BYTES - 1);
  const [prefix, rest] = [name.slice(0, Math.max(slash, 0)), name.slice(slash + 1)];
  if (Buffer.byteLength(rest) > NAME_BYTES || Buffer.byteLength(prefix) > PREFIX_BYTES) {
    throw new Error(`The name ${name} is too long for a tar file`);
  }
  block.write(rest, 0);
  block.write(prefix, 345);
  const octal = (value: number, at: number, digits: number) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  octal(0o600, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  if (size < OCTAL_LIMIT) octal(size, 124, 11);
  else {
    block.writeBigUInt64BE(BigInt(size), 128);
    block[124] = 0x80;
  }
  octal(Math.floor(modified.getTime() / 1_000), 136, 11);
  block.write('0', 156);
  block.write('ustar\u000000', 257, 'latin1');
  block.write(`${checksum(block).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

/** The sum of all bytes, those of the sum itself taken as spaces. */
function checksum(block: Buffer): number {
  return block.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0);
}

/** All members, by looking at the headers alone. @throws BadArchive */
export async function readMembers(file: FileHandle): Promise<Map<string, Member>> {
  const members = new Map<string, Member>();
  const { size: end } = await file.stat();
  for (let position = 0; ;) {
    const block = await readBlock(file, position, end);
    if (block.every((byte) => byte === 0)) {
      const last = await readBlock(file, position + BLOCK, end);
      if (last.some((byte) => byte !== 0)) throw new BadArchive('It is damaged');
      return members;
    }
    const { name, size } = parseHeader(block);
    if (members.has(name)) throw new BadArchive(`It has "${name}" twice`);
    members.set(name, { name, offset: position + BLOCK, size });
    position += BLOCK + size + padding(size);
  }
}

async function readBlock(file: FileHandle, position: number, end: number): Promise<Buffer> {
  if (position === 0 && end < BLOCK) throw new BadArchive('It is not a backup of cdp');
  if (position + BLOCK > end) throw new BadArchive('It ends too early: it was not written, or not copied, to its end');
  const { buffer } = await file.read(Buffer.alloc(BLOCK), 0, BLOCK, position);
  return buffer;
}

/** Strict: what this program writes, and nothing else that is a tar file too. */
function parseHeader(block: Buffer): { name: string; size: number } {
  if (block.toString('latin1', 257, 263) !== 'ustar\0') throw new BadArchive('It is not a backup of cdp');
  const text = (from: number, to: number) => block.toString('latin1', from, to).replace(/\0.*$/s, '');
  if (Number.parseInt(text(148, 156), 8) !== checksum(block)) throw new BadArchive('It is damaged');
  const name = [text(345, 500), text(0, 100)].filter((part) => part !== '').join('/');
  const size = block[124] === 0x80 ? Number(block.readBigUInt64BE(128)) : Number.parseInt(text(124, 136), 8);
  if (text(156, 157) !== '0' || !Number.isSafeInteger(size) || size < 0)
    throw new BadArchive('It is not a backup of cdp');
  return { name, size };
}

/** A member's content; the file stays open. */
export function readMember(path: string, { offset, size }: Member): Readable {
  // createReadStream cannot be told of an empty range.
  return size === 0 ? Readable.from([]) : createReadStream(path, { start: offset, end: offset + size - 1 });
}

/** SHA-256 of a member's content, hex. */
export async function hashMember(path: string, member: Member): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of readMember(path, member)) hash.update(part as Buffer);
  return hash.digest('hex');
}
