/** Files and standard input: their size and identity, and their unpacked text. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { UsageError } from '../exit.js';
import { decode, decoderFor } from './decode.js';

export const STDIN = '-';

export const labelOf = (path: string): string => (path === STDIN ? 'standard input' : path);

export interface Input {
  /** For messages. */
  readonly label: string;
  /** Without `.gz`; its ending may tell the format. */
  readonly name: string;
  /** Bytes of the file on disk; null if it can be read only once: standard input, a pipe. */
  readonly size: number | null;
  /** How many of them have been read. */
  readonly bytesRead: () => number;
  readonly text: AsyncGenerator<string, void>;
  /** Stops reading, even while waiting for someone to type. */
  readonly close: () => void;
}

/**
 * @param encoding default: UTF-8, or UTF-16 if the file begins with a byte order mark
 * @throws UsageError if there is no such file, or no such encoding
 */
export async function openInput(path: string, encoding: string | undefined): Promise<Input> {
  const decoder = encoding === undefined ? undefined : decoderFor(encoding);
  const size = await sizeOf(path);
  const stream: Readable = path === STDIN ? process.stdin : createReadStream(path, { highWaterMark: 256 * 1024 });
  let read = 0;
  const counted = async function* (): AsyncGenerator<Buffer, void> {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      read += chunk.length;
      yield chunk;
    }
  };
  const label = labelOf(path);
  return {
    label,
    name: path.replace(/\.gz$/i, ''),
    size,
    bytesRead: () => read,
    text: decode(unpacked(counted()), decoder, label),
    close: () => stream.destroy(),
  };
}

/** In bytes; null if it can be read only once. @throws UsageError if there is no such file */
export async function sizeOf(path: string): Promise<number | null> {
  if (path === STDIN) return null;
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new UsageError(`${path} is a folder`);
    return found.isFile() ? found.size : null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new UsageError(`There is no file ${path}`);
    throw error;
  }
}

/** Gzip is recognised by its first two bytes (RFC 1952). */
async function* unpacked(bytes: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  const { value: first, done } = await bytes.next();
  if (done) return;
  const all = async function* () {
    yield first;
    yield* bytes;
  };
  if (first[0] === 0x1f && (first[1] ?? 0x8b) === 0x8b) {
    // An error of either stream reaches the reader of the second.
    yield* pipeline(Readable.from(all(), { objectMode: false }), createGunzip(), () => {}) as AsyncIterable<Buffer>;
  } else {
    yield* all();
  }
}

/** Size, modification time and a hash of the beginning; null if it can be read only once. @throws UsageError */
export async function identityOf(path: string): Promise<string | null> {
  if ((await sizeOf(path)) === null) return null;
  const { size, mtimeMs } = await stat(path);
  const handle = await open(path);
  try {
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(64 * 1024), position: 0 });
    const beginning = createHash('sha256').update(buffer.subarray(0, bytesRead)).digest('hex');
    return `${size} ${mtimeMs} ${beginning}`;
  } finally {
    await handle.close();
  }
}

/** @throws UsageError if the file has changed since its identity was taken */
export async function requireUnchanged(path: string, identity: string | null): Promise<void> {
  if ((await identityOf(path)) === identity) return;
  throw new UsageError(
    `${path} has changed since the import was started`,
    'Start again with --restart; rows that are stored stay',
  );
}
