/** Bytes to text. Bytes that are not text in the encoding are an error, never replaced. */
import { isUtf8 } from 'node:buffer';
import { UsageError } from '../exit.js';
import { countOf } from './csv-reader.js';

/** Common files that are not text: their first bytes, what they are, what to do. */
const BINARY_FILES: readonly (readonly [string, string, string])[] = [
  ['504b0304', 'a ZIP archive or a spreadsheet', 'Extract it, or save the sheet as CSV'],
  ['d0cf11e0', 'a spreadsheet', 'Save it as CSV'],
  ['50415231', 'a Parquet file', `Convert it: duckdb -csv -c "FROM 'FILE'" | cdp import -`],
  ['4152524f5731', 'an Arrow file', 'Convert it to CSV or NDJSON'],
  [
    '53514c69746520666f726d6174',
    'an SQLite database',
    'Convert it: sqlite3 -csv -header FILE "SELECT …" | cdp import -',
  ],
  ['425a68', 'compressed with bzip2', 'Decompress it: bzcat FILE | cdp import -'],
  ['fd377a585a', 'compressed with xz', 'Decompress it: xzcat FILE | cdp import -'],
  ['28b52ffd', 'compressed with zstd', 'Decompress it: zstdcat FILE | cdp import -'],
  ['377abcaf', 'a 7z archive', 'Unpack it'],
  ['25504446', 'a PDF', 'Import the data that it was made from'],
];

/** Text without records. */
const MARKUP: readonly (readonly [RegExp, string, string])[] = [
  [
    /^\s*<(?:!doctype html|html)\b/i,
    'a web page',
    'If it was downloaded, this may be a login or error page instead of the file',
  ],
  [/^\s*<\?xml\b/i, 'XML', 'Convert it to CSV or NDJSON'],
];

/** The magic number of a tar archive and its offset. */
const TAR = { at: 257, magic: 'ustar' };

const LF = 0x0a;

type Decoder = InstanceType<typeof TextDecoder>;

/** @throws UsageError if there is no such encoding */
export function decoderFor(encoding: string): Decoder {
  try {
    return new TextDecoder(encoding, { fatal: true });
  } catch {
    throw new UsageError(`There is no encoding "${encoding}"`, 'Examples: utf-8, utf-16le, windows-1252');
  }
}

/**
 * @param decoder default: as the first bytes say
 * @throws UsageError naming the line if a byte does not belong to the encoding
 */
export async function* decode(
  bytes: AsyncIterable<Buffer>,
  decoder: Decoder | undefined,
  path: string,
): AsyncGenerator<string, void> {
  /** Where the chunk begins. */
  let line = 1;
  let chunk: Buffer = Buffer.alloc(0);
  let text = '';
  try {
    for await (chunk of bytes) {
      decoder ??= detectEncoding(chunk, path);
      line += countOf(text, '\n');
      text = decoder.decode(chunk, { stream: true });
      yield text;
    }
    yield decoder?.decode() ?? '';
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA' && decoder !== undefined) {
      throw invalidBytes(path, decoder.encoding, line, chunk);
    }
    if (code?.startsWith('Z_')) throw new Error(`${path} cannot be decompressed: ${message}`);
    throw error;
  }
}

/** @throws UsageError if these are not the first bytes of a text with records */
function detectEncoding(first: Buffer, path: string): Decoder {
  const start = first.toString('hex', 0, 16);
  const kind = BINARY_FILES.find(([magic]) => start.startsWith(magic));
  if (kind !== undefined) throw new UsageError(`${path} is ${kind[1]}, not text`, kind[2].replace('FILE', path));
  if (first.toString('latin1', TAR.at, TAR.at + TAR.magic.length) === TAR.magic) {
    throw new UsageError(`${path} is a tar archive, not text`, `Decompress it: tar xf ${path}`);
  }
  if (start.startsWith('fffe')) return decoderFor('utf-16le');
  if (start.startsWith('feff')) return decoderFor('utf-16be');
  const beginning = first.toString('utf8', start.startsWith('efbbbf') ? 3 : 0);
  const markup = MARKUP.find(([pattern]) => pattern.test(beginning));
  if (markup !== undefined) throw new UsageError(`${path} is ${markup[1]}, not a table`, markup[2]);
  if (beginning.slice(0, beginning.indexOf('\n')).includes('\0')) {
    throw new UsageError(`${path} is not text in UTF-8`, 'If it is UTF-16: --encoding utf-16le');
  }
  return decoderFor('utf-8');
}

/**
 * @param line number of the line in which the chunk begins
 * @param chunk holds the invalid bytes
 */
function invalidBytes(path: string, encoding: string, line: number, chunk: Buffer): UsageError {
  if (encoding !== 'utf-8') return new UsageError(`${path} is not ${encoding}`, 'Set its encoding with --encoding');
  // The chunk may begin within a character.
  let start = Math.max(
    0,
    chunk.findIndex((byte) => (byte & 0xc0) !== 0x80),
  );
  let end = chunk.indexOf(LF, start);
  for (; end !== -1 && isUtf8(chunk.subarray(start, end)); end = chunk.indexOf(LF, start)) {
    start = end + 1;
    line++;
  }
  // With `stream`, since Node 20 otherwise decodes it as ISO 8859-1, without “quotes” and €.
  const shown = new TextDecoder('windows-1252').decode(chunk.subarray(start, end === -1 ? undefined : end), {
    stream: true,
  });
  return new UsageError(
    `${path}, line ${line}: this is not UTF-8`,
    `Read as windows-1252 it is: ${shown.trim().slice(0, 70)}\nIf that is right: --encoding windows-1252`,
  );
}
