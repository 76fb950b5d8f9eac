/** A file that the user has dropped, for an import. */
import { FileError } from '../../../src/import/file-error.js';
import { textInput } from '../../../src/import/input.js';
import { openFile } from '../../../src/import/open-file.js';
import type { FileRecord, ImportFile } from '../../../src/import/source.js';

type Bytes = AsyncGenerator<Uint8Array, void>;

export const browserFile = (file: File): ImportFile => ({
  path: file.name,
  identity: () => identityOf(file),
  open: async (options) => {
    const known = { path: file.name, label: file.name, size: file.size };
    const slice = (start: number, end?: number) => stillReadable(file, file.slice(start, end).arrayBuffer());
    const text = () => {
      const bytes = readable(file);
      const gunzip = (packed: Bytes) => gunzipped(packed, file.name);
      return textInput({ ...known, bytes, gunzip, close: () => void bytes.return() }, options.encoding);
    };
    const source = await openFile({ ...known, slice }, text, options);
    return { ...source, records: inTurns(source.records) };
  },
});

const HEAD = 16 * 1024;

/** Size, modification time and the first bytes: without HTTPS, browsers provide no hashes. */
async function identityOf(file: File): Promise<string> {
  const head = await file.slice(0, HEAD).arrayBuffer();
  return `${file.size} ${file.lastModified} ${new TextDecoder('windows-1252').decode(head)}`;
}

const stillReadable = <T>(file: File, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw explained(file, error);
  });

async function* readable(file: File): Bytes {
  try {
    yield* inPieces(file.stream());
  } catch (error) {
    throw explained(file, error);
  }
}

const explained = (file: File, error: unknown): unknown =>
  error instanceof DOMException && error.name.startsWith('Not')
    ? new FileError(`${file.name} can no longer be read: it was changed, moved or deleted`, 'Choose the file again')
    : error;

async function* gunzipped(packed: Bytes, name: string): Bytes {
  const { readable: unpacked, writable } = new DecompressionStream('gzip');
  const writer = writable.getWriter();
  let cause: unknown;
  const feed = async () => {
    try {
      for await (const chunk of packed) await writer.write(chunk as Uint8Array<ArrayBuffer>);
      await writer.close();
    } catch (error) {
      cause = error;
      // The reader of the stream gets the cause.
      await writer.abort(error).catch(() => {});
    }
  };
  void feed();
  try {
    yield* inPieces(unpacked);
  } catch (error) {
    if (cause instanceof FileError) throw cause;
    throw new FileError(
      `${name} cannot be decompressed: ${error instanceof Error ? error.message : String(error)}`,
      'If it consists of several gzip files, unpack it first: browsers read only the first of them',
    );
  }
}

/** Parsing this many bytes takes a few milliseconds. */
const PIECE_BYTES = 64 * 1024;
const BUSY_MS = 12;

/** Yields to the browser from time to time, so that the page stays responsive. */
async function* inPieces(stream: ReadableStream<Uint8Array>): Bytes {
  const reader = stream.getReader();
  let turn = performance.now();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (let at = 0; at < value.length; at += PIECE_BYTES) {
        if (performance.now() - turn > BUSY_MS) {
          await nextTurn();
          turn = performance.now();
        }
        yield value.subarray(at, at + PIECE_BYTES);
      }
    }
  } finally {
    // The import has what it needs, or its own error.
    await reader.cancel().catch(() => {});
  }
}

/** The same for records, whatever their file is read with. */
async function* inTurns(records: AsyncIterable<FileRecord>): AsyncGenerator<FileRecord, void> {
  let turn = performance.now();
  for await (const record of records) {
    if (performance.now() - turn > BUSY_MS) {
      await nextTurn();
      turn = performance.now();
    }
    yield record;
  }
}

/** Unlike a timer, this is not throttled in a background tab. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
