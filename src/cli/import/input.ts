/** The bytes of a file or of standard input, unpacked and decoded; what is not text is refused rather than changed. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { UsageError } from '../remote/outcome.js';

export const STDIN = '-';

export interface Input {
  /** `-` for standard input. */
  readonly path: string;
  /** Without `.gz`; it may tell the format. */
  readonly name: string;
  /** Bytes of the file as it is stored; null for standard input. */
  readonly size: number | null;
  /** Of these so many have been read. */
  readonly read: () => number;
  readonly text: AsyncGenerator<string, void>;
}

/** @throws UsageError where there is no such file, or no such encoding */
export async function openInput(path: string, encoding: string): Promise<Input> {
  const decoder = decoderFor(encoding);
  let read = 0;
  const size = path === STDIN ? null : await sizeOf(path);
  const source: Readable = path === STDIN ? process.stdin : createReadStream(path, { highWaterMark: 256 * 1024 });
  const counted = async function* (): AsyncGenerator<Buffer, void> {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      read += chunk.length;
      yield chunk;
    }
  };
  const text = decode(unpacked(counted()), decoder, path);
  return { path, name: path.replace(/\.gz$/i, ''), size, read: () => read, text };
}

async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new UsageError(`${path} is a folder`);
    return found.size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new UsageError(`There is no file ${path}`);
    throw error;
  }
}

type Decoder = InstanceType<typeof TextDecoder>;

function decoderFor(encoding: string): Decoder {
  try {
    return new TextDecoder(encoding, { fatal: true });
  } catch {
    throw new UsageError(`There is no encoding "${encoding}"`, 'For instance utf-8, utf-16le, windows-1252');
  }
}

/** Gzip says so itself, in its first two bytes (RFC 1952). */
async function* unpacked(bytes: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  const first = await bytes.next();
  if (first.done) return;
  const rest = async function* () {
    yield first.value;
    yield* bytes;
  };
  if (first.value[0] === 0x1f && first.value[1] === 0x8b) {
    const packed = Readable.from(rest(), { objectMode: false });
    const gunzip = packed.pipe(createGunzip());
    packed.once('error', (error) => gunzip.destroy(error));
    yield* gunzip as AsyncIterable<Buffer>;
  } else {
    yield* rest();
  }
}

async function* decode(bytes: AsyncIterable<Buffer>, decoder: Decoder, path: string): AsyncGenerator<string, void> {
  try {
    for await (const chunk of bytes) yield decoder.decode(chunk, { stream: true });
    yield decoder.decode();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') {
      throw new UsageError(
        `${path} is not ${decoder.encoding}`,
        'Say what it is: --encoding windows-1252, for instance',
      );
    }
    if (code?.startsWith('Z_')) throw new Error(`${path} cannot be unpacked: ${message}`);
    throw error;
  }
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
