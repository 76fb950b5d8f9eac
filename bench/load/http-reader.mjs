/** Reads HTTP/1.1 answers as cheaply as can be: the status, and where the body ends (RFC 9112 section 6). */

const EMPTY = Buffer.alloc(0);
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');

/** How much of a refused answer is shown. */
const SHOWN = 600;

/**
 * @param {(bytes: number) => void} onAnswer gets the length of each body
 * @param {((part: Buffer) => void) | null} onBody gets the bodies piece by piece
 * @returns {(chunk: Buffer) => void} throws for a status other than 2xx
 */
export function httpReader(onAnswer, onBody) {
  /** What came and could not be used yet. */
  let rest = EMPTY;
  /** Bytes that the body, or the current chunk of it, still has; -1 while a head is awaited. */
  let left = -1;
  let chunked = false;
  let size = 0;

  const body = (part) => {
    size += part.length;
    left -= part.length;
    onBody?.(part);
  };
  const end = () => {
    const bytes = size;
    left = -1;
    size = 0;
    onAnswer(bytes);
  };

  /** @returns {boolean} whether the head was whole */
  const head = () => {
    const at = rest.indexOf(END_OF_HEAD);
    if (at < 0) return false;
    const text = rest.latin1Slice(0, at + 2);
    if (text.charCodeAt(9) !== 0x32) throw new Error(`refused: ${rest.toString('utf8', 0, SHOWN)}`);
    rest = rest.subarray(at + 4);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text);
    chunked = length === null && /\r\ntransfer-encoding: *chunked/i.test(text);
    left = length === null ? 0 : Number(length[1]);
    if (!chunked && left === 0) end();
    return true;
  };

  /** @returns {boolean} whether the line with the size of a chunk was whole */
  const chunkHead = () => {
    const at = rest.indexOf(LINE_END);
    if (at < 0) return false;
    const length = Number.parseInt(rest.latin1Slice(0, at), 16);
    if (length === 0) {
      if (rest.length < at + 4) return false;
      rest = rest.subarray(at + 4);
      end();
    } else {
      rest = rest.subarray(at + 2);
      left = length;
    }
    return true;
  };

  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length > 0) {
      if (left < 0) {
        if (!head()) return;
      } else if (left > 0) {
        const part = rest.subarray(0, left);
        rest = rest.subarray(part.length);
        body(part);
        if (left === 0 && !chunked) end();
        else if (left === 0) left = -CRLF_AFTER_CHUNK;
      } else if (!chunkHead()) return;
    }
  };
}
