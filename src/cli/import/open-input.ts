/** Files and standard input: their size and identity, and their bytes. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { hasCode } from '../../files.js';
import { decoderFor } from '../../import/decode.js';
import { type TextInput, textInput } from '../../import/input.js';
import { UsageError } from '../exit.js';

export const STDIN = '-';

export const labelOf = (path: string): string => (path === STDIN ? 'standard input' : path);

/**
 * @param encoding default: UTF-8, or UTF-16 if the file begins with a byte order mark
 * @throws UsageError if there is no such file; FileError if there is no such encoding
 */
export async function openInput(path: string, encoding: string | undefined): Promise<TextInput> {
  const label = labelOf(path);
  // Checked before anything is opened.
  if (encoding !== undefined) decoderFor(encoding);
  const size = await sizeOf(path);
  const stream: Readable = path === STDIN ? process.stdin : createReadStream(path, { highWaterMark: 256 * 1024 });
  const bytes = stream as AsyncIterable<Buffer>;
  const gunzip = (packed: AsyncIterable<Uint8Array>) => gunzipped(packed, label);
  return textInput({ path, label, size, bytes, gunzip, close: () => stream.destroy() }, encoding);
}

async function* gunzipped(packed: AsyncIterable<Uint8Array>, label: string): AsyncGenerator<Buffer, void> {
  try {
    // Errors of both streams reach the reader of the second.
    yield* pipeline(Readable.from(packed, { objectMode: false }), createGunzip(), () => {}) as AsyncIterable<Buffer>;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw code?.startsWith('Z_') ? new Error(`${label} cannot be decompressed: ${message}`) : error;
  }
}

/** The size in bytes; null if the file can be read only once. @throws UsageError if there is no such file */
export async function sizeOf(path: string): Promise<number | null> {
  if (path === STDIN) return null;
  try {
    const stats = await stat(path);
    if (stats.isDirectory()) throw new UsageError(`${path} is a folder`);
    return stats.isFile() ? stats.size : null;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) throw new UsageError(`There is no file ${path}`);
    throw error;
  }
}

/** Size, modification time and a hash of the beginning; null if the file can be read only once. @throws UsageError */
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
