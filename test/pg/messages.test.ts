/** The messages of the extended query protocol, byte for byte (Postgres manual, Message Formats). */
import { describe, expect, it } from 'vitest';
import { ConnectionLost } from '../../src/pg/errors.js';
import {
  bind,
  cancelMessage,
  closeStatement,
  COPY_DONE,
  copyFail,
  dataMessages,
  DESCRIBE_STATEMENT,
  execute,
  parse,
  readErrorFields,
  readParameterOids,
  readParameterStatus,
  readRowDescription,
  readTag,
  readTextRow,
  SYNC,
  TERMINATE,
} from '../../src/pg/messages.js';

const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))));
const int16 = (n: number) => [(n >> 8) & 255, n & 255];
const int32 = (n: number) => [(n >> 24) & 255, (n >> 16) & 255, (n >> 8) & 255, n & 255];

describe('are written', () => {
  it('as Parse, with the length in bytes of UTF-8', () => {
    expect(parse('é')).toEqual(bytes('P', int32(4 + 1 + 2 + 1 + 2), '\0', 'é\0', int16(0)));
    expect(parse('', 's1')).toEqual(bytes('P', int32(4 + 3 + 1 + 2), 's1\0', '\0', int16(0)));
    expect(() => parse('a\0b')).toThrow('U+0000');
  });

  it('as Bind, with texts, NULLs and formats', () => {
    expect(bind([])).toEqual(bytes('B', int32(4 + 2 + 2 + 2 + 2), '\0\0', int16(0), int16(0), int16(0)));
    expect(bind(['é', null, ''], [0, 1], 'x')).toEqual(
      bytes(
        ...['B', int32(4 + 1 + 2 + 2 + 2 + 6 + 4 + 4 + 2 + 4), '\0', 'x\0', int16(0), int16(3)],
        ...[int32(2), 'é', int32(-1), int32(0), int16(2), int16(0), int16(1)],
      ),
    );
  });

  it('as Bind with the maximum number of parameters', () => {
    const all = bind(Array.from({ length: 65_535 }, () => null));
    expect(all.readUInt16BE(9)).toBe(65_535);
    expect(all.length).toBe(5 + 2 + 2 + 2 + 65_535 * 4 + 2);
  });

  it('as Execute, Describe, Sync, Terminate, Close and the COPY messages', () => {
    expect(execute(7)).toEqual(bytes('E', int32(9), '\0', int32(7)));
    expect(execute()).toEqual(bytes('E', int32(9), '\0', int32(0)));
    expect(DESCRIBE_STATEMENT).toEqual(bytes('D', int32(6), 'S\0'));
    expect(SYNC).toEqual(bytes('S', int32(4)));
    expect(TERMINATE).toEqual(bytes('X', int32(4)));
    expect(closeStatement('s1')).toEqual(bytes('C', int32(8), 'Ss1\0'));
    expect(dataMessages(Buffer.alloc(300, 1))).toEqual([bytes('d', int32(304)), Buffer.alloc(300, 1)]);
    expect(COPY_DONE).toEqual(bytes('c', int32(4)));
    expect(copyFail('why')).toEqual(bytes('f', int32(8), 'why\0'));
  });

  it('as CancelRequest, with the largest numbers', () => {
    expect(cancelMessage(1, bytes(int32(-2)))).toEqual(bytes(int32(16), int16(1234), int16(5678), int32(1), int32(-2)));
    expect(cancelMessage(2 ** 31 - 1, bytes(int32(-(2 ** 31)))).subarray(8)).toEqual(
      bytes([127, 255, 255, 255, 128, 0, 0, 0]),
    );
  });
});

describe('are read', () => {
  it('as the fields of an error', () => {
    const body = bytes('before', 'SERROR\0VERROR\0C22012\0Mdivision — by zero\0P8\0\0', 'after');
    const fields = readErrorFields(body, 6, body.length - 5);
    expect([...fields]).toEqual([
      ['S', 'ERROR'],
      ['V', 'ERROR'],
      ['C', '22012'],
      ['M', 'division — by zero'],
      ['P', '8'],
    ]);
  });

  it('as a row description', () => {
    const field = (name: string, oid: number, modifier: number) =>
      bytes(`${name}\0`, int32(9), int16(3), int32(oid), int16(-1), int32(modifier), int16(0));
    const body = bytes('x', int16(2));
    const whole = Buffer.concat([body, field('é', 25, -1), field('', 4_000_000_000, 24)]);
    expect(readRowDescription(whole, 1, whole.length)).toEqual([
      { ...{ name: 'é', tableOid: 9, columnNumber: 3 }, typeOid: 25, typeSize: -1, typeModifier: -1 },
      { ...{ name: '', tableOid: 9, columnNumber: 3 }, typeOid: 4_000_000_000, typeSize: -1, typeModifier: 24 },
    ]);
    expect(readRowDescription(bytes(int16(0)), 0, 2)).toEqual([]);
  });

  it('as parameter types', () => {
    expect(readParameterOids(bytes('xx', int16(2), int32(23), int32(-1)), 2, 12)).toEqual([23, 4_294_967_295]);
  });

  it('as a row of text values', () => {
    expect(readTextRow(bytes('x', int16(3), int32(2), 'é', int32(-1), int32(0)), 1, 17)).toEqual(['é', null, '']);
    expect(readTextRow(bytes(int16(0)), 0, 2)).toEqual([]);
  });

  it('as a command tag and a parameter status', () => {
    expect(readTag(bytes('..INSERT 0 5\0..'), 2, 13)).toBe('INSERT 0 5');
    expect(readParameterStatus(bytes('.client_encoding\0UTF8\0'), 1, 22)).toEqual(['client_encoding', 'UTF8']);
  });
});

describe('that contradict themselves', () => {
  const behind = 'BEHIND'.repeat(20);
  const field = bytes('name\0', int32(9), int16(3), int32(25), int16(-1), int32(-1), int16(0));
  it.each([
    ['an error', bytes('SERROR\0MOn no account\0C22012\0\0'), readErrorFields],
    ['an error without an end', bytes('SERROR\0MOn no account'), readErrorFields],
    ['columns', bytes(int16(2), [...field], [...field]), readRowDescription],
    ['parameters', bytes(int16(2), int32(23), int32(25)), readParameterOids],
    ['a row', bytes(int16(2), int32(4), 'text', int32(4), 'text'), readTextRow],
    ['a row of a long field', bytes(int16(1), int32(0x7fff_ffff), 'text'), readTextRow],
    ['a setting', bytes('client_encoding\0UTF8\0'), readParameterStatus],
  ] as const)('reveal nothing of the memory behind them: %s', (_, message, read) => {
    const memory = bytes('E', [...message], behind, [0]);
    for (let end = 1; end <= message.length; end++) {
      let found: unknown;
      try {
        found = read(memory, 1, end);
      } catch (error) {
        found = (error as Error).message;
      }
      expect(JSON.stringify(found instanceof Map ? [...found] : found)).not.toContain('BEHIND');
    }
  });

  it('end even if there is no NUL', () => {
    const memory = Buffer.alloc(100_000, 'x');
    expect(() => readErrorFields(memory, 1, 90_000)).toThrow(ConnectionLost);
  });
});
