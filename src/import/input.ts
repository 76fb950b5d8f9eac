/** The bytes of a file from any place, and their uncompressed text. */
import { decode, decoderFor } from './decode.js';

export interface Input {
  /** The name in messages. */
  readonly label: string;
  /** The file's name without `.gz`; its extension may show the format. */
  readonly name: string;
  /** The stored size in bytes; null if the file can be read only once: standard input, a pipe. */
  readonly size: number | null;
  /** How many of these bytes have been read. */
  readonly bytesRead: () => number;
  /** Stops reading, even while waiting for input from a terminal. */
  readonly close: () => void;
}

export interface TextInput extends Input {
  readonly text: AsyncGenerator<string, void>;
}

/** A file of a format that is not read from its beginning to its end. */
export interface RandomAccess {
  /** Its name, or its path. */
  readonly path: string;
  /** The name in messages. */
  readonly label: string;
  /** In bytes; null if it can be read only once, and not in slices. */
  readonly size: number | null;
  /** @param end default: its end */
  readonly slice: (start: number, end?: number) => Promise<ArrayBuffer>;
}

type Bytes = AsyncGenerator<Uint8Array, void>;

interface OpenedBytes extends Omit<Input, 'name' | 'bytesRead'> {
  /** The file's unchanged name, or its path. */
  readonly path: string;
  readonly bytes: AsyncIterable<Uint8Array>;
  /**
   * Decompresses gzip.
   * @throws Error if it is invalid
   */
  readonly gunzip: (packed: Bytes) => AsyncIterable<Uint8Array>;
}

/**
 * @param encoding default: UTF-8, or UTF-16 if the file begins with a byte order mark
 * @throws FileError if the encoding does not exist
 */
export function textInput(
  { path, label, size, bytes, gunzip, close }: OpenedBytes,
  encoding: string | undefined,
): TextInput {
  const decoder = encoding === undefined ? undefined : decoderFor(encoding);
  let read = 0;
  const counted = async function* (): Bytes {
    for await (const chunk of bytes) {
      read += chunk.length;
      yield chunk;
    }
  };
  return {
    label,
    name: path.replace(/\.gz$/i, ''),
    size,
    bytesRead: () => read,
    text: decode(unpacked(counted(), gunzip), decoder, label),
    close,
  };
}

/** Recognizes gzip by its first two bytes (RFC 1952). */
async function* unpacked(bytes: Bytes, gunzip: OpenedBytes['gunzip']): Bytes {
  const { value: first, done } = await bytes.next();
  if (done) return;
  const all = async function* (): Bytes {
    yield first;
    yield* bytes;
  };
  const isGzip = first[0] === 0x1f && (first[1] ?? 0x8b) === 0x8b;
  yield* isGzip ? gunzip(all()) : all();
}
