/** Reads HTTP/1.1 responses as cheaply as possible: the status, and where the body ends (RFC 9112 section 6). */

const EMPTY = Buffer.alloc(0);
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');

/** How much of a refused response is shown. */
const SHOWN = 600;

/**
 * @param {(bytes: number) => void} onAnswer gets the length of each body
 * @param {(part: Buffer) => void} [onBody] gets the bodies piece by piece
 * @returns {(chunk: Buffer) => void} throws for a status other than 2xx
 */
export function httpReader(onResponse, onBody) {
  /** Bytes that arrived and could not be used yet. */
  let rest = EMPTY;
  /** Bytes still to come of the body, or of its current chunk. */
  let left = 0;
  let size = 0;

  /** Each step uses up a part of `rest` and returns the next step; null if it needs more bytes. */
  const head = () => {
    const at = rest.indexOf(END_OF_HEAD);
    if (at < 0) return null;
    const text = rest.latin1Slice(0, at + 2);
    if (text[9] !== '2') throw new Error(`refused: ${rest.toString('utf8', 0, SHOWN)}`);
    rest = rest.subarray(at + 4);
    size = 0;
    const length = /\r\ncontent-length: *(\d+)/i.exec(text);
    if (length === null && /\r\ntransfer-encoding: *chunked/i.test(text)) return chunkHead;
    left = length === null ? 0 : Number(length[1]);
    return left === 0 ? end() : body;
  };

  const take = () => {
    const part = rest.subarray(0, left);
    rest = rest.subarray(part.length);
    left -= part.length;
    size += part.length;
    onBody?.(part);
  };

  const body = () => {
    take();
    return left === 0 ? end() : body;
  };

  const chunkHead = () => {
    const at = rest.indexOf(LINE_END);
    if (at < 0) return null;
    left = Number.parseInt(rest.latin1Slice(0, at), 16);
    rest = rest.subarray(at + 2);
    return left === 0 ? lastLine : chunk;
  };

  const chunk = () => {
    take();
    return left === 0 ? chunkEnd : chunk;
  };

  const chunkEnd = () => {
    if (rest.length < 2) return null;
    rest = rest.subarray(2);
    return chunkHead;
  };

  const lastLine = () => {
    if (rest.length < 2) return null;
    rest = rest.subarray(2);
    return end();
  };

  const end = () => {
    onResponse(size);
    return head;
  };

  let step = head;
  return (received) => {
    rest = rest.length === 0 ? received : Buffer.concat([rest, received]);
    while (rest.length > 0) {
      const next = step();
      if (next === null) return;
      step = next;
    }
  };
}
