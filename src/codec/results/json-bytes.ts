/** JSON as bytes: what is already UTF-8 is copied, and never becomes a string. */

const FIRST_BYTES = 4 * 1024;

export class JsonBytes {
  private bytes = Buffer.allocUnsafe(FIRST_BYTES);
  private end = 0;

  get length(): number {
    return this.end;
  }

  /** All of it. Nothing may be written after it. */
  whole(): Buffer {
    return this.bytes.subarray(0, this.end);
  }

  /** JSON, or a part of it. */
  text(json: string): void {
    // A unit of UTF-16 is at most three bytes of UTF-8.
    this.makeRoom(3 * json.length);
    this.end += this.bytes.write(json, this.end);
  }

  /** The same of a few characters of ASCII. */
  ascii(json: string): void {
    this.makeRoom(json.length);
    for (let i = 0; i < json.length; i++) this.bytes[this.end++] = json.charCodeAt(i);
  }

  /** UTF-8 that is JSON, or a part of it. */
  copy(from: Buffer, start = 0, end = from.length): void {
    this.makeRoom(end - start);
    const { bytes } = this;
    let at = this.end;
    // A call for so few bytes takes longer than copying them.
    if (end - start > SHORT_BYTES) at += from.copy(bytes, at, start, end);
    else for (let i = start; i < end; i++) bytes[at++] = from[i] as number;
    this.end = at;
  }

  byte(byte: number): void {
    this.makeRoom(1);
    this.bytes[this.end++] = byte;
  }

  /** UTF-8 as a string of JSON. */
  string(from: Buffer, start: number, end: number): void {
    for (let i = start; i < end; i++) {
      const byte = from[i] as number;
      if (byte < SPACE || byte === QUOTE || byte === BACKSLASH)
        return this.text(JSON.stringify(from.toString('utf8', start, end)));
    }
    this.quoted(from, start, end);
  }

  /** UTF-8 in which nothing is to be escaped, as a string of JSON. */
  quoted(from: Buffer, start: number, end: number): void {
    this.byte(QUOTE);
    this.copy(from, start, end);
    this.byte(QUOTE);
  }

  private makeRoom(size: number): void {
    if (this.end + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.end + size));
    this.bytes.copy(larger, 0, 0, this.end);
    this.bytes = larger;
  }
}

const SHORT_BYTES = 32;
const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
