/** From bytes to text: UTF-8, UTF-16 that says so, or what one is told; what is not text is refused rather than changed. */
import { isUtf8 } from 'node:buffer';
import { UsageError } from '../remote/outcome.js';

/** Files that people have and that are no text, by their first bytes. */
const KINDS: readonly (readonly [string, string, string])[] = [
  ['504b0304', 'a ZIP archive or a spreadsheet', 'Unpack it, or save the sheet as CSV'],
  ['d0cf11e0', 'a spreadsheet', 'Save it as CSV'],
  ['50415231', 'Parquet', `Convert it: duckdb -csv -c "FROM 'FILE'" | cdp import -`],
  ['4152524f5731', 'Arrow', 'Convert it to CSV or NDJSON'],
  [
    '53514c69746520666f726d6174',
    'an SQLite database',
    'Convert it: sqlite3 -csv -header FILE "SELECT …" | cdp import -',
  ],
  ['425a68', 'packed by bzip2', 'Unpack it: bzcat FILE | cdp import -'],
  ['fd377a585a', 'packed by xz', 'Unpack it: xzcat FILE | cdp import -'],
  ['28b52ffd', 'packed by zstd', 'Unpack it: zstdcat FILE | cdp import -'],
  ['377abcaf', 'a 7z archive', 'Unpack it'],
  ['25504446', 'a PDF', 'Import the data that it was made from'],
];

/** The same of what is text, but holds no records. */
const MARKUP: readonly (readonly [RegExp, string, string])[] = [
  [
    /^\s*<(?:!doctype html|html)\b/i,
    'a web page',
    'Was it downloaded? A page for logging in, or about an error, may have come instead',
  ],
  [/^\s*<\?xml\b/i, 'XML', 'Convert it to CSV or NDJSON'],
];

/** Where a tar archive says that it is one. */
const TAR = { at: 257, says: 'ustar' };

type Decoder = InstanceType<typeof TextDecoder>;

/** @throws UsageError where there is no such encoding */
export function decoderFor(encoding: string): Decoder {
  try {
    return new TextDecoder(encoding, { fatal: true });
  } catch {
    throw new UsageError(`There is no encoding "${encoding}"`, 'For instance utf-8, utf-16le, windows-1252');
  }
}

/** @param first the first bytes of a file @throws UsageError where it is no text */
function decoderOf(first: Buffer, path: string): Decoder {
  const start = first.toString('hex', 0, 16);
  const kind = KINDS.find(([bytes]) => start.startsWith(bytes));
  if (kind !== undefined) throw new UsageError(`${path} is ${kind[1]}, and no text`, kind[2].replace('FILE', path));
  if (first.toString('latin1', TAR.at, TAR.at + TAR.says.length) === TAR.says) {
    throw new UsageError(`${path} is a tar archive, and no text`, `Unpack it: tar xf ${path}`);
  }
  if (start.startsWith('fffe')) return decoderFor('utf-16le');
  if (start.startsWith('feff')) return decoderFor('utf-16be');
  const beginning = first.toString('utf8', start.startsWith('efbbbf') ? 3 : 0);
  const markup = MARKUP.find(([pattern]) => pattern.test(beginning));
  if (markup !== undefined) throw new UsageError(`${path} is ${markup[1]}, and no table`, markup[2]);
  const line = first.subarray(0, (first.indexOf(LF) + 1 || first.length) - 1);
  if (line.includes(0)) throw new UsageError(`${path} is no text in UTF-8`, 'Is it UTF-16? --encoding utf-16le');
  return decoderFor('utf-8');
}

const LF = 0x0a;

/**
 * @param told undefined: as the bytes say
 * @throws UsageError naming the line where a byte is none of the encoding
 */
export async function* decode(
  bytes: AsyncIterable<Buffer>,
  told: Decoder | undefined,
  path: string,
): AsyncGenerator<string, void> {
  let decoder = told;
  let line = 1;
  /** Of the line that is not whole yet. */
  let open: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of bytes) {
      decoder ??= decoderOf(chunk, path);
      open = open.length === 0 ? chunk : Buffer.concat([open, chunk]);
      yield decoder.decode(chunk, { stream: true });
      const end = open.lastIndexOf(LF) + 1;
      line += countOfLines(open.subarray(0, end));
      open = open.subarray(Math.max(end, open.length - MAX_SHOWN));
    }
    yield decoder?.decode() ?? '';
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA' && decoder !== undefined) {
      throw badBytes(path, decoder.encoding, line, open);
    }
    if (code?.startsWith('Z_')) throw new Error(`${path} cannot be unpacked: ${message}`);
    throw error;
  }
}

const MAX_SHOWN = 64 * 1024;

function countOfLines(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) count++;
  return count;
}

/** @param bytes from the beginning of a line on, the bad ones among them */
function badBytes(path: string, encoding: string, line: number, bytes: Buffer): UsageError {
  if (encoding !== 'utf-8') return new UsageError(`${path} is not ${encoding}`, 'Say what it is: --encoding');
  let from = 0;
  let bad = line;
  for (let end = bytes.indexOf(LF); end !== -1 && isUtf8(bytes.subarray(from, end)); end = bytes.indexOf(LF, from)) {
    from = end + 1;
    bad++;
  }
  const end = bytes.indexOf(LF, from);
  // As a stream, as a file is read: else Node 20 takes it for ISO 8859-1, without “quotes” and €.
  const shown = new TextDecoder('windows-1252').decode(bytes.subarray(from, end === -1 ? undefined : end), {
    stream: true,
  });
  return new UsageError(
    `${path}, line ${bad}: this is not UTF-8`,
    `In windows-1252 it is: ${shown.trim().slice(0, 70)}\nIf that is right: --encoding windows-1252`,
  );
}
