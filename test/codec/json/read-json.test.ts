/** Reads JSON as RFC 8259 says, within limits, and keeps every digit (src/codec/json). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/contract/errors.js';
import type { JsonNode } from '../../../src/codec/json/nodes.js';
import { readJsonBody } from '../../../src/codec/json/json-body.js';
import { allSteps, readJson } from '../../../src/codec/json/read-json.js';
import { quoted } from '../../../src/contract/message-text.js';

const bytes = (text: string) => new TextEncoder().encode(text);
const read = (text: string) => readJson(bytes(text));
const bodyOf = (...given: Parameters<typeof readJsonBody>) => allSteps(readJsonBody(...given));

/** The plain value of a tree, built without looking at the source again. */
function plain(node: JsonNode): unknown {
  switch (node.kind) {
    case 'null':
      return null;
    case 'number':
      return Number(node.text);
    case 'array':
      return node.items.map(plain);
    case 'object': {
      const object: Record<string, unknown> = {};
      for (const [key, value] of node.members) {
        Object.defineProperty(object, key, {
          value: plain(value),
          enumerable: true,
          writable: true,
          configurable: true,
        });
      }
      return object;
    }
    default:
      return node.value;
  }
}

function refusal(body: string | Uint8Array): string {
  try {
    readJson(typeof body === 'string' ? bytes(body) : body);
  } catch (error) {
    if (error instanceof EngineError && error.code === 'invalid_json') return error.message;
    throw error;
  }
  throw new Error('was accepted');
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function accepts(text: string): boolean {
  try {
    read(text);
    return true;
  } catch (error) {
    if (error instanceof EngineError && error.code === 'invalid_json') return false;
    throw error;
  }
}

describe('reading JSON works', () => {
  it('keeps numbers and nested JSON as the text that was sent', () => {
    const root = read(' {"n": 9007199254740993.10 , "list":[ 1E+2,-0.0 ],"o": { "a" : 1 }, "s":"x" } ');
    expect(root).toEqual({
      kind: 'object',
      text: '{"n": 9007199254740993.10 , "list":[ 1E+2,-0.0 ],"o": { "a" : 1 }, "s":"x" }',
      members: [
        ['n', { kind: 'number', text: '9007199254740993.10' }],
        [
          'list',
          {
            kind: 'array',
            text: '[ 1E+2,-0.0 ]',
            items: [
              { kind: 'number', text: '1E+2' },
              { kind: 'number', text: '-0.0' },
            ],
          },
        ],
        ['o', { kind: 'object', text: '{ "a" : 1 }', members: [['a', { kind: 'number', text: '1' }]] }],
        ['s', { kind: 'string', value: 'x' }],
      ],
    });
  });

  it('decodes every escape, including lone surrogates', () => {
    const root = read(String.raw`"\"\\\/\b\f\n\r\té\ud83d\ude00\u0000\ud800"`);
    expect(root).toEqual({ kind: 'string', value: '"\\/\b\f\n\r\té😀\u0000\ud800' });
  });

  it('returns __proto__ and constructor as ordinary keys', () => {
    const text = '{"__proto__":{"polluted":1},"constructor":2}';
    const root = read(text);
    expect(root.kind === 'object' && root.members.map(([key]) => key)).toEqual(['__proto__', 'constructor']);
    expect(Object.keys(bodyOf(bytes(text)).value as object)).toEqual(['__proto__', 'constructor']);
    const plain = bodyOf(bytes(text), 'params').value as object;
    expect(Object.keys(plain)).toEqual(['__proto__', 'constructor']);
    expect(Object.getPrototypeOf(plain)).toBe(Object.prototype);
    expect({}).not.toHaveProperty('polluted');
  });

  it('returns the same tree and refuses with the same message, however deeply it keeps nodes', () => {
    const outcome = (text: string, kept: number) => {
      try {
        const root = readJson(bytes(text), kept);
        return plain(root);
      } catch (error) {
        return (error as EngineError).message;
      }
    };
    const spoil = fc.record({
      at: fc.nat(),
      with: fc.constantFrom('', '"', ',', '}', ']', '1', '\\', '\n', '-0', '1e', 'nul'),
    });
    fc.assert(
      fc.property(fc.json(), fc.option(spoil), fc.nat(3), (json, spoiled, kept) => {
        const at = spoiled === null ? 0 : spoiled.at % (json.length + 1);
        const text = spoiled === null ? json : json.slice(0, at) + spoiled.with + json.slice(at + 1);
        expect(outcome(text, kept)).toEqual(outcome(text, Infinity));
      }),
      { numRuns: 2_000 },
    );
  });

  it('checks the syntax of what it does not keep', () => {
    const root = readJson(bytes('[[1, -0, 1.5e3, [true, {"a": null}], 0]]'), 1);
    const [inner] = root.kind === 'array' ? root.items : [];
    expect(inner).toMatchObject({ kind: 'array', text: '[1, -0, 1.5e3, [true, {"a": null}], 0]' });
    for (const wrong of ['[01]', '[-]', '[1.]', '[1e]', '[+1]', '[.5]', '[1', '[0x1]']) {
      expect(() => readJson(bytes(wrong), 0)).toThrow(/not valid JSON/);
    }
  });

  it('returns the fields of a request apart from its data, digit by digit', () => {
    const text = '{"sql":"x","params":[1,{"a":[2]},"z"],"max_rows":1.0,"read_only":true,"other":{"b":1}}';
    const { value, data } = bodyOf(bytes(text), 'params');
    expect(data.map(plain)).toEqual([1, { a: [2] }, 'z']);
    expect(value).toEqual({
      sql: 'x',
      params: [null, null, null],
      max_rows: 1,
      read_only: true,
      other: {},
    });
  });

  it('returns the value that JSON.parse returns', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom('', ' ', '\n\t\r '), (text, space) => {
        const sent = space + text + space;
        expect(plain(read(sent))).toEqual(JSON.parse(sent));
        expect(bodyOf(bytes(sent)).value).toEqual(JSON.parse(sent));
      }),
      { numRuns: 500 },
    );
  });

  it('accepts exactly the texts that JSON.parse accepts', () => {
    const fragments = [
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '"a"',
      '\\',
      '\\u00e9',
      '\\u12',
      '\n',
      ' ',
      '\u00a0',
      '\t',
      '-',
      '+',
      '0',
    ];
    const more = [
      '1',
      '01',
      '.',
      '5',
      'e',
      'E',
      'true',
      'false',
      'null',
      'nul',
      'NaN',
      'Infinity',
      '/**/',
      "'",
      '\u0001',
      '\u2028',
    ];
    const fragment = fc.constantFrom(...fragments, ...more);
    const soup = fc.array(fragment, { maxLength: 8 }).map((parts) => parts.join(''));
    const damaged = fc.tuple(fc.json(), fc.nat(), fc.nat({ max: 2 }), fragment).map(([text, at, cut, put]) => {
      const start = at % (text.length + 1);
      return text.slice(0, start) + put + text.slice(start + cut);
    });
    fc.assert(
      fc.property(fc.oneof(soup, damaged), (text) => {
        expect(accepts(text)).toBe(parses(text));
      }),
      { numRuns: 5_000 },
    );
  });

  it('accepts 100 levels of nesting, and does not count brackets in strings', () => {
    const levels = '{"a":['.repeat(50) + `"${'['.repeat(200)}"` + ']}'.repeat(50);
    expect(bodyOf(bytes(levels)).value).toEqual(JSON.parse(levels));
  });

  it('accepts a body of 10 MiB whatever it contains', () => {
    for (const body of [
      `[${'1,'.repeat(5_000_000)}1]`,
      `["${'\\n'.repeat(5_000_000)}"]`,
      `["${'é'.repeat(5_000_000)}"]`,
      `[${'1'.repeat(10_000_000)}]`,
      ' '.repeat(10_000_000) + '[]',
    ]) {
      expect(read(body).kind).toBe('array');
    }
  });
});

describe('reading JSON refuses', () => {
  it('with the line and column of what is wrong, without the values around it', () => {
    expect(refusal('[\n  {"card": "4111-1111"}\n  {"card": "4222-2222"}\n]')).toBe(
      'The body is not valid JSON: line 3, column 3: expected a comma or a closing bracket',
    );
    expect(refusal('{"secret" "x"}')).toBe('The body is not valid JSON: line 1, column 11: expected a colon');
  });

  it.each([
    ['', 'line 1, column 1: the body ends too early'],
    ['[1', 'line 1, column 3: the body ends too early'],
    ['"abc', 'line 1, column 5: the body ends too early'],
    ['[1,]', 'line 1, column 4: expected a value'],
    ['{"a":1,}', 'line 1, column 8: expected a key in double quotes'],
    ["{'a':1}", 'line 1, column 2: expected a key in double quotes'],
    ['{"a":1 "b":2}', 'line 1, column 8: expected a comma or a closing brace'],
    ['[01]', 'line 1, column 3: expected a comma or a closing bracket'],
    ['[+1]', 'line 1, column 2: expected a value'],
    ['[.5]', 'line 1, column 2: expected a value'],
    ['[NaN]', 'line 1, column 2: expected a value'],
    ['[1] 2', 'line 1, column 5: expected the end of the input'],
    ['"\t"', 'line 1, column 2: a control character in a string must be escaped'],
    ['"\\x"', 'line 1, column 2: invalid JSON escape sequence'],
    ['"\\u12"', 'line 1, column 2: invalid JSON escape sequence'],
    ['/* */1', 'line 1, column 1: expected a value'],
    ['\ufeff[]', 'line 1, column 1: a byte order mark is not allowed'],
  ])('%j', (text, message) => {
    expect(refusal(text)).toBe(`The body is not valid JSON: ${message}`);
  });

  it('the 101st level of nesting, and a million levels without a stack overflow', () => {
    const message = 'The body is not valid JSON: line 1, column 101: at most 100 levels of nesting are allowed';
    expect(refusal('['.repeat(101) + ']'.repeat(101))).toBe(message);
    expect(refusal('['.repeat(1_000_000))).toBe(message);
    expect(refusal('{"a":'.repeat(1_000_000))).toContain('at most 100 levels');
  });

  it('bytes that are not UTF-8', () => {
    const notUtf8 = [
      [0xff],
      [0x22, 0xc3, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
      [0x22, 0xc0, 0x80, 0x22],
      [0x5b, 0, 0x5d, 0],
    ];
    for (const body of notUtf8.slice(0, 4)) expect(refusal(Uint8Array.from(body))).toBe('The body is not valid UTF-8');
    expect(refusal(Uint8Array.from(notUtf8[4] as number[]))).toContain('expected a value');
  });

  it('a duplicate key, at any depth or only at the top', () => {
    const twice = (text: string, dataField?: string) => () => bodyOf(bytes(text), dataField);
    expect(twice('{"a":1,"b":2,"a":3}')).toThrow('The key "a" occurs twice');
    expect(twice(String.raw`{"a":1,"\u0061":3}`)).toThrow('The key "a" occurs twice');
    expect(twice('{"columns":[{"x":1},{"name":1,"name":2}]}')).toThrow('The key "name" occurs twice');
    expect(twice('{"__proto__":1,"__proto__":2}')).toThrow('The key "__proto__" occurs twice');
    expect(twice('{"params":[{"name":1,"name":2}]}', 'params')).not.toThrow();
    expect(twice('{"a":{"toString":1},"toString":2}')).not.toThrow();
    expect(twice('{"params":[],"params":[]}', 'params')).toThrow('The key "params" occurs twice');
    expect(twice('{"a":1,"a":2,}')).toThrow('expected a key');
  });
});

describe('a body of a request', () => {
  const ones = (count: number) => Array.from({ length: count }, () => '1').join();
  const keys = (count: number) => Array.from({ length: count }, (_, i) => `"k${i}":1`).join();
  const refusedBy = (text: string, dataField?: string) => {
    try {
      bodyOf(bytes(text), dataField);
    } catch (error) {
      if (error instanceof EngineError && error.code === 'invalid_request') return error.message;
      throw error;
    }
    return 'accepted';
  };

  it.each([
    ['items', (count: number) => `{"sql":"x","params":[${ones(count)}],"read_only":true}`],
    ['keys', (count: number) => `{"sql":"x","params":{${keys(count)}},"read_only":true}`],
    ['nested values', (count: number) => `{"sql":"x","params":[{"a":[${ones(count - 2)}]}]}`],
    ['values of several fields', (count: number) => `{"a":[${ones(5)}],"b":{"c":1},"params":[${ones(count - 6)}]}`],
  ])('holds 65,535 values in its fields, not more: %s', (_, body) => {
    const message = 'The body holds more than 65535 values, counted up to its field "params"';
    for (const dataField of ['params', undefined]) {
      expect(refusedBy(body(65_535), dataField)).toBe('accepted');
      expect(refusedBy(body(65_536), dataField)).toBe(message);
    }
  });

  it('has 1,600 fields, not more', () => {
    expect(refusedBy(`{${keys(1_600)}}`)).toBe('accepted');
    expect(refusedBy(`{${keys(1_601)}}`)).toBe('The body has more than 1600 fields');
  });

  it('is read no further than the limit', () => {
    expect(refusedBy(`{"params":[${ones(65_536)},this is not JSON`)).toContain('more than 65535 values');
    expect(refusedBy(`[${ones(65_537)},this is not JSON`)).toBe('The body holds more than 65535 values');
  });
});

describe('reading JSON protects messages', () => {
  it('from long texts and from control characters', () => {
    expect(quoted('x'.repeat(1_000_000), 10)).toBe('"xxxxxxxxxx…"');
    expect(quoted('\u001b[31m"\ud800')).toBe(String.raw`"\u001b[31m\"\ud800"`);
  });
});
