/** Splitting Postgres's byte stream into messages, however the network splits it (Postgres manual, Message Formats). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConnectionLost } from '../../src/pg/errors.js';
import { Framing } from '../../src/pg/framing.js';

interface Message {
  type: string;
  body: string;
}

function encode({ type, body }: Message): Buffer {
  const content = Buffer.from(body, 'latin1');
  const bytes = Buffer.alloc(5 + content.length);
  bytes.write(type, 'latin1');
  bytes.writeInt32BE(4 + content.length, 1);
  content.copy(bytes, 5);
  return bytes;
}

const STREAM: Message[] = [
  { type: '1', body: '' },
  { type: 'D', body: 'a row' },
  { type: 'D', body: '' },
  { type: 'C', body: 'SELECT 2\0' },
  { type: 'D', body: 'x'.repeat(40) },
  { type: 'Z', body: 'I' },
];
const BYTES = Buffer.concat(STREAM.map(encode));

/** Feeds the chunks and returns the messages, copied out while they are valid. */
function cut(chunks: readonly Buffer[], accepts: (type: number, length: number) => boolean = () => true): Message[] {
  const found: Message[] = [];
  const framing = new Framing((type, buffer, start, end) => {
    found.push({ type: String.fromCharCode(type), body: buffer.toString('latin1', start, end) });
  }, accepts);
  // All chunks come in one buffer that is overwritten afterward: nothing may rely on it any longer.
  const shared = Buffer.alloc(Math.max(...chunks.map(({ length }) => length)) + 9, 0xff);
  for (const chunk of chunks) {
    chunk.copy(shared);
    if (!framing.feed(shared, chunk.length)) return found;
    shared.fill(0xff);
  }
  return found;
}

const at = (...offsets: number[]): Buffer[] =>
  [0, ...offsets].map((from, i) => BYTES.subarray(from, offsets[i] ?? BYTES.length));

describe('returns the same messages', () => {
  it('in one piece', () => {
    expect(cut([BYTES])).toEqual(STREAM);
  });

  it('split at every byte', () => {
    for (let i = 0; i <= BYTES.length; i++) expect({ i, found: cut(at(i)) }).toEqual({ i, found: STREAM });
  });

  it('split at every two bytes', () => {
    for (let i = 0; i <= BYTES.length; i++) {
      for (let j = i; j <= BYTES.length; j++) expect(cut(at(i, j))).toEqual(STREAM);
    }
  });

  it('byte by byte', () => {
    expect(cut(Array.from(BYTES, (byte) => Buffer.from([byte])))).toEqual(STREAM);
  });

  it('for any messages and any splits', () => {
    const message = fc.record({
      type: fc.constantFrom('D', 'C', 'Z', 'T', '1'),
      body: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    });
    const property = fc.property(
      fc.array(message, { maxLength: 20 }),
      fc.array(fc.nat(), { maxLength: 20 }),
      (messages, cuts) => {
        const bytes = Buffer.concat(messages.map(encode));
        const offsets = cuts.map((n) => n % (bytes.length + 1)).sort((a, b) => a - b);
        const chunks = [0, ...offsets].map((from, i) => bytes.subarray(from, offsets[i] ?? bytes.length));
        expect(cut(chunks)).toEqual(messages);
      },
    );
    fc.assert(property, { numRuns: 300 });
  });

  it('for one body of 5 MB that arrives in many chunks', () => {
    const big = { type: 'D', body: 'y'.repeat(5_000_000) };
    const bytes = Buffer.concat([encode(big), BYTES]);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, i) =>
      bytes.subarray(i * 65_536, (i + 1) * 65_536),
    );
    expect(cut(chunks)).toEqual([big, ...STREAM]);
  });
});

describe('rejects an unacceptable message', () => {
  const upTo20 = (type: number, length: number) => type !== 0x44 || length <= 20;
  const kept = STREAM.slice(0, 4);

  it('as soon as its header has arrived, however it is split', () => {
    const headerEnd = BYTES.indexOf('x'.repeat(40));
    for (let i = 0; i <= BYTES.length; i++) expect(cut(at(i), upTo20)).toEqual(kept);
    const framing = new Framing(() => {}, upTo20);
    expect(framing.feed(BYTES.subarray(0, headerEnd - 1))).toBe(true);
    expect(framing.feed(BYTES.subarray(headerEnd - 1, headerEnd + 1))).toBe(false);
  });

  it.each([
    ['a length that does not hold itself', 'D', 3],
    ['a length of nothing', 'D', 0],
    ['a negative length', 'C', -1],
    ['the least length', 'C', -(2 ** 31)],
    ['a type that there is none of', '\0', 10],
  ])('if the network has changed it: %s', (_what, type, length) => {
    const broken = Buffer.alloc(20, 0x20);
    broken.write(type, 'latin1');
    broken.writeInt32BE(length, 1);
    const bytes = Buffer.concat([BYTES, broken]);
    for (const step of [1, 7, bytes.length]) {
      const framing = new Framing(
        () => {},
        () => true,
      );
      const feed = () => {
        for (let i = 0; i < bytes.length; i += step) framing.feed(bytes.subarray(i, i + step));
      };
      expect(feed).toThrow('Postgres sent something that is not its protocol');
    }
  });

  it('by its type and the length of its body', () => {
    const asked: [string, number][] = [];
    cut([BYTES], (type, length) => {
      asked.push([String.fromCharCode(type), length]);
      return true;
    });
    expect(asked).toEqual(STREAM.map(({ type, body }) => [type, body.length]));
  });
});

describe('rejects invalid messages', () => {
  it.each([-0x8000_0000, -5, -1, 0, 3])('of length %i, in one piece or several', (length) => {
    const bytes = Buffer.alloc(64, 'x');
    bytes.writeInt32BE(length, 1);
    for (let i = 0; i <= 8; i++) expect(() => cut([bytes.subarray(0, i), bytes.subarray(i)])).toThrow(ConnectionLost);
  });

  it('at once, whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 10 }), (chunks) => {
        try {
          cut([Buffer.alloc(0), ...chunks.map((chunk) => Buffer.from(chunk))]);
        } catch (error) {
          expect(error).toBeInstanceOf(ConnectionLost);
        }
      }),
      { numRuns: 300 },
    );
  });
});
