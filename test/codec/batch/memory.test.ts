/** The memory of the encoder: what is in it at which time, and how large it becomes. */
import { expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import type { EncodedBatch } from '../../../src/codec/index.js';
import { bytes, column } from './shapes.js';
import { fast, type TestTable, tableOf } from './tables.js';

const TEXTS = tableOf(column('a', 'TEXT'), column('b', 'TEXT'));
const ARRAYS = tableOf(column('n', 'INTEGER'), column('list', null, { isArray: true }));

function encoded(json: string, plan: TestTable): EncodedBatch {
  const data = fast(plan, bytes(json));
  if (data === null) throw new Error('The fast path must take this batch');
  return data;
}

const textOf = ({ data }: EncodedBatch) => Buffer.from(data).toString();

/** A row of two texts in binary. */
const row = (a: string, b: string) =>
  [a, b].reduce((row, text) => row + `\0\0\0${String.fromCharCode(text.length)}${text}`, '\0\x02');

it('keeps the rows of a batch unchanged while others are encoded', () => {
  const first = encoded('[{"a":"x","b":"y"}]', TEXTS);
  const second = encoded('[{"a":"z","b":"z"}]', TEXTS);
  expect(textOf(first)).toBe(row('x', 'y'));
  expect(textOf(second)).toBe(row('z', 'z'));
});

it('switches between tables', () => {
  const other = tableOf(column('b', 'TEXT'), column('c', 'TEXT'));
  for (let i = 0; i < 3; i++) {
    expect(textOf(encoded('[{"b":"y","a":"x"}]', TEXTS))).toBe(row('x', 'y'));
    expect(textOf(encoded('[{"c":"z","b":"y"}]', other))).toBe(row('y', 'z'));
    expect(fast(other, bytes('[{"a":"x"}]'))).toBeNull();
  }
});

it.each([
  ['in the order of the columns', (text: string) => `[{"a":"${text}","b":"b"}]`],
  ['in another order', (text: string) => `[{"b":"b","a":"${text}"}]`],
])('encodes the largest body, its keys %s, and small ones after it', (_, json) => {
  const text = 'é'.repeat((LIMITS.bodyBytes - 20) / 2);
  for (let i = 0; i < 3; i++) {
    const large = encoded(json(text), TEXTS);
    expect(large.data.length).toBe(2 + 4 + text.length * 2 + 4 + 1);
    expect(Buffer.from(large.data).toString('utf8', 6, 8)).toBe('é');
    expect(textOf(encoded('[{"a":"x","b":"y"}]', TEXTS))).toBe(row('x', 'y'));
  }
});

it('makes room for cells that become many times longer', () => {
  const list = JSON.stringify(Array.from({ length: 60_000 }, () => '"\\'));
  const cell = `{${Array.from({ length: 60_000 }, () => String.raw`"\\"\\\\"`).join()}}`;
  const record = `{"list":${list},"n":1}`;
  expect(textOf(encoded(`[${record},${record}]`, ARRAYS))).toBe(`1\t${cell}\n`.repeat(2));
});

it('leaves a batch that needs more than its memory to the reference', () => {
  // Each backslash of a text in an object in an array is two in JSON and eight in COPY's text.
  const object = JSON.stringify({ text: '\\'.repeat(4_000_000) });
  expect(fast(ARRAYS, bytes(`[{"n":1,"list":[${object}]}]`))).toBeNull();
  expect(textOf(encoded('[{"a":"x","b":"y"}]', TEXTS))).toBe(row('x', 'y'));
});
