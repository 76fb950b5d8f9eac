/** The bytes of a file or of standard input, unpacked, as text. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { UsageError } from '../remote/outcome.js';
import { decode, decoderFor } from './encoding.js';

export const STDIN = '-';

export const labelOf = (path: string): string => (path === STDIN ? 'standard input' : path);

export interface Input {
  /** As messages call it. */
  readonly path: string;
  /** Without `.gz`; it may tell the format. */
  readonly name: string;
  /** Bytes of the file as it is stored; null where it can be read but once: standard input, a pipe. */
  readonly size: number | null;
  /** Of these so many have been read. */
  readonly read: () => number;
  readonly text: AsyncGenerator<string, void>;
  /** Reads no more, even where it waits for somebody to type. */
  readonly close: () => void;
}

/**
 * @param encoding undefined: UTF-8, or UTF-16 where the file says so
 * @throws UsageError where there is no such file, or no such encoding
 */
export async function openInput(path: string, encoding: string | undefined): Promise<Input> {
  const told = encoding === undefined ? undefined : decoderFor(encoding);
  let read = 0;
  const size = await sizeOf(path);
  const source: Readable = path === STDIN ? process.stdin : createReadStream(path, { highWaterMark: 256 * 1024 });
  const counted = async function* (): AsyncGenerator<Buffer, void> {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      read += chunk.length;
      yield chunk;
    }
  };
  const label = labelOf(path);
  const text = decode(unpacked(counted()), told, label);
  return { path: label, name: path.replace(/\.gz$/i, ''), size, read: () => read, text, close: () => source.destroy() };
}

/** Bytes; null where it can be read but once. @throws UsageError where there is no such file */
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

/** As many as tell what kind of file it is. */
const FIRST_BYTES = 1024;

/** Gzip says so itself, in its first two bytes (RFC 1952). */
async function* unpacked(bytes: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  const first = await bytes.next();
  if (first.done) return;
  const rest = gathered(first.value, bytes);
  if (first.value[0] === 0x1f && (first.value[1] ?? 0x8b) === 0x8b) {
    const packed = Readable.from(rest, { objectMode: false });
    const gunzip = packed.pipe(createGunzip());
    packed.once('error', (error) => gunzip.destroy(error));
    yield* gathered(Buffer.alloc(0), gunzip as AsyncIterable<Buffer>);
  } else {
    yield* rest;
  }
}

/** The same bytes; the first piece has enough of them to tell what they are. */
async function* gathered(first: Buffer, bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let start: Buffer | undefined = first;
  for await (const chunk of bytes) {
    if (start === undefined) {
      yield chunk;
      continue;
    }
    start = start.length === 0 ? chunk : Buffer.concat([start, chunk]);
    if (start.length < FIRST_BYTES) continue;
    yield start;
    start = undefined;
  }
  if (start !== undefined && start.length > 0) yield start;
}

/** The first characters, and a generator that begins with them. */
export async function peek(
  text: AsyncGenerator<string, void>,
  characters: number,
): Promise<{ head: string; isAll: boolean; whole: AsyncGenerator<string, void> }> {
  let head = '';
  let isAll = false;
  while (head.length < characters && !isAll) {
    const { value, done } = await text.next();
    if (done) isAll = true;
    else head += value;
  }
  const whole = async function* () {
    yield head;
    yield* text;
  };
  return { head, isAll, whole: whole() };
}
