/** Decodes bytes to text. Invalid bytes are an error and never replaced. */
import { FileError } from './file-error.js';
import { countOf } from './csv-reader.js';

/** Common files that are not text: their first bytes, what they are, and what to do. */
const BINARY_FILES: readonly (readonly [string, string, string])[] = [
  ['504b0304', 'a ZIP archive', 'Extract it; or if it is an Excel workbook: --format xlsx'],
  ['d0cf11e0', 'a spreadsheet', 'Save it as CSV'],
  ['50415231', 'a Parquet file', 'Import it from a file, neither compressed nor through a pipe'],
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

/** The magic number of a tar archive, and its offset. */
const TAR = { at: 257, magic: 'ustar' };

const LF = 0x0a;

type Decoder = InstanceType<typeof TextDecoder>;

/** @throws FileError if the encoding does not exist */
export function decoderFor(encoding: string): Decoder {
  try {
    return new TextDecoder(encoding, { fatal: true });
  } catch {
    throw new FileError(`There is no encoding "${encoding}"`, 'Examples: utf-8, utf-16le, windows-1252');
  }
}

/**
 * @param decoder default: the one that the first bytes indicate
 * @throws FileError that names the line if a byte is invalid in the encoding
 */
export async function* decode(
  bytes: AsyncIterable<Uint8Array>,
  decoder: Decoder | undefined,
  path: string,
): AsyncGenerator<string, void> {
  /** The number of the line in which the chunk begins. */
  let line = 1;
  let chunk: Uint8Array = new Uint8Array();
  let text = '';
  const decoded = (decoder: Decoder, isLast: boolean): string => {
    try {
      return isLast ? decoder.decode() : decoder.decode(chunk, { stream: true });
    } catch {
      throw invalidBytes(path, decoder.encoding, line, chunk);
    }
  };
  for await (chunk of bytes) {
    decoder ??= detectEncoding(chunk, path);
    line += countOf(text, '\n');
    text = decoded(decoder, false);
    yield text;
  }
  yield decoder === undefined ? '' : decoded(decoder, true);
}

/** @throws FileError if these are not the first bytes of a text with records */
function detectEncoding(first: Uint8Array, path: string): Decoder {
  const start = Array.from(first.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
  const kind = BINARY_FILES.find(([magic]) => start.startsWith(magic));
  if (kind !== undefined) throw new FileError(`${path} is ${kind[1]}, not text`, kind[2].replace('FILE', path));
  if (new TextDecoder().decode(first.subarray(TAR.at, TAR.at + TAR.magic.length)) === TAR.magic) {
    throw new FileError(`${path} is a tar archive, not text`, `Decompress it: tar xf ${path}`);
  }
  if (start.startsWith('fffe')) return decoderFor('utf-16le');
  if (start.startsWith('feff')) return decoderFor('utf-16be');
  const beginning = new TextDecoder().decode(first);
  const markup = MARKUP.find(([pattern]) => pattern.test(beginning));
  if (markup !== undefined) throw new FileError(`${path} is ${markup[1]}, not a table`, markup[2]);
  if (beginning.slice(0, beginning.indexOf('\n')).includes('\0')) {
    throw new FileError(`${path} is not text in UTF-8`, 'If it is UTF-16: --encoding utf-16le');
  }
  return decoderFor('utf-8');
}

/**
 * @param line number of the line in which the chunk begins
 * @param chunk contains the invalid bytes
 */
function invalidBytes(path: string, encoding: string, line: number, chunk: Uint8Array): FileError {
  if (encoding !== 'utf-8') return new FileError(`${path} is not ${encoding}`, 'Set its encoding with --encoding');
  // The chunk may begin in the middle of a character.
  let start = Math.max(
    0,
    chunk.findIndex((byte) => (byte & 0xc0) !== 0x80),
  );
  let end = chunk.indexOf(LF, start);
  for (; end !== -1 && isUtf8(chunk.subarray(start, end)); end = chunk.indexOf(LF, start)) {
    start = end + 1;
    line++;
  }
  // With `stream`, because otherwise Node 20 decodes it as ISO 8859-1, without “quotes” and €.
  const shown = new TextDecoder('windows-1252').decode(chunk.subarray(start, end === -1 ? undefined : end), {
    stream: true,
  });
  return new FileError(
    `${path}, line ${line}: this is not UTF-8`,
    `Read as windows-1252 it is: ${shown.trim().slice(0, 70)}\nIf that is right: --encoding windows-1252`,
  );
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    decoderFor('utf-8').decode(bytes);
    return true;
  } catch {
    return false;
  }
}
