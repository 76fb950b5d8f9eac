/** The bytes of a file, wherever it is, and their unpacked text. */
import { decode, decoderFor } from './decode.js';

export interface Input {
  /** For messages. */
  readonly label: string;
  /** Without `.gz`; its ending may tell the format. */
  readonly name: string;
  /** Bytes of the file as it is stored; null if it can be read only once: standard input, a pipe. */
  readonly size: number | null;
  /** How many of them have been read. */
  readonly bytesRead: () => number;
  /** Stops reading, even while waiting for someone to type. */
  readonly close: () => void;
}

export interface TextInput extends Input {
  readonly text: AsyncGenerator<string, void>;
}

type Bytes = AsyncGenerator<Uint8Array, void>;

export interface OpenedBytes extends Omit<Input, 'name' | 'bytesRead'> {
  /** The file's name as it is, or its path. */
  readonly path: string;
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Unpacks gzip. @throws Error if it is broken */
  readonly gunzip: (packed: Bytes) => AsyncIterable<Uint8Array>;
}

/**
 * @param encoding default: UTF-8, or UTF-16 if the file begins with a byte order mark
 * @throws FileError if there is no such encoding
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

/** Gzip is recognised by its first two bytes (RFC 1952). */
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
