/** Reading files: CSV of any shape, names, guessed types. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnNames } from '../../src/cli/import/column-names.js';
import { csvRecords } from '../../src/cli/import/csv.js';
import { ColumnGuess } from '../../src/cli/import/guess.js';
import { jsonArray } from '../../src/cli/import/json-records.js';

async function collected<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of source) all.push(each);
  return all;
}

/** The text in pieces of these lengths, in turn. */
function* pieces(text: string, lengths: readonly number[]): Generator<string> {
  for (let at = 0, i = 0; at < text.length; i++) {
    const length = lengths[i % lengths.length] ?? 1;
    yield text.slice(at, at + length);
    at += length;
  }
}

const cell = fc.oneof(fc.constant(null), fc.constant(''), fc.string(), fc.stringMatching(/^[",;\n\r a]{0,5}$/));

describe('CSV', () => {
  it('is read as it was written, wherever it is cut: quotes, line breaks, NULL and ""', async () => {
    const property = fc.asyncProperty(
      fc
        .integer({ min: 2, max: 4 })
        .chain((width) => fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1 })),
      fc.constantFrom(',', ';', '\t'),
      fc.constantFrom('\n', '\r\n'),
      fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }),
      fc.boolean(),
      async (rows, delimiter, end, lengths, isEnded) => {
        const written = (value: string | null) => (value === null ? '' : `"${value.replaceAll('"', '""')}"`);
        const text = rows.map((row) => row.map(written).join(delimiter)).join(end) + (isEnded ? end : '');
        const read = await collected(csvRecords(pieces(text, lengths), delimiter, 'file'));
        expect(read.map(({ cells }) => cells)).toEqual(rows);
      },
    );
    await fc.assert(property, { seed: 1, numRuns: 500 });
  });

  it('counts lines as an editor does', async () => {
    const read = await collected(csvRecords(['a,"x\ny"\r\n\r\nb,c\n'], ',', 'file'));
    expect(read.map(({ line }) => line)).toEqual([1, 4]);
  });

  it('takes an empty line for NULL where there is one field, and for nothing where there are more', async () => {
    const cells = async (text: string) => (await collected(csvRecords([text], ',', 'file'))).map((row) => row.cells);
    expect(await cells('a\n\n1\n')).toEqual([['a'], [null], ['1']]);
    expect(await cells('a,b\n\n1,2\n')).toEqual([
      ['a', 'b'],
      ['1', '2'],
    ]);
  });
});

describe('a JSON array', () => {
  it('is cut between its items, wherever its text is cut', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.dictionary(fc.string(), fc.jsonValue())),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      fc.constantFrom(undefined, 2),
      async (items, lengths, space) => {
        const read = await collected(jsonArray(fromSync(pieces(JSON.stringify(items, null, space), lengths)), 'file'));
        expect(read.map(({ text }) => JSON.parse(text) as unknown)).toEqual(JSON.parse(JSON.stringify(items)));
      },
    );
    await fc.assert(property, { seed: 1, numRuns: 300 });
  });

  it.each(['[1,]', '[1 2', '{"a":1}', '[1] 2', ''])('that is %s is refused', async (text) => {
    await expect(collected(jsonArray(fromSync([text]), 'file'))).rejects.toThrow('file, line 1');
  });
});

async function* fromSync(source: Iterable<string>): AsyncGenerator<string> {
  for (const each of source) yield await Promise.resolve(each);
}

describe('names of columns', () => {
  it.each([
    [
      ['Customer ID', 'Score (0-10)', 'ALL CAPS'],
      ['customer_id', 'score_0_10', 'all_caps'],
    ],
    [
      ['a', 'A', 'a '],
      ['a', 'a_2', 'a_3'],
    ],
    [
      ['', '  ', '日本', '2020', '_kept_'],
      ['column_1', 'column_2', 'column_3', '_2020', '_kept_'],
    ],
    [
      ['id', 'xmin', '_cdp_x', 'Straße', 'Ørsted'],
      ['id_2', 'xmin_2', 'cdp_x', 'strasse', 'orsted'],
    ],
    [
      ['x'.repeat(70), 'x'.repeat(70)],
      ['x'.repeat(63), `${'x'.repeat(61)}_2`],
    ],
  ])('%j become %j', (heads, names) => {
    expect(columnNames(heads, { keep: false, hasIds: false })).toEqual(names);
  });
});

describe('types', () => {
  const typeOf = (...values: string[]) => {
    const guess = new ColumnGuess();
    values.forEach((value) => guess.addText(value));
    return guess.type;
  };
  it.each([
    ['INTEGER', ['1', '-9223372036854775808', '9223372036854775807', '0']],
    ['TEXT', ['9223372036854775808']],
    ['TEXT', ['1', '007']],
    ['TEXT', ['+49 30']],
    ['FLOAT', ['1', '0.1', '-1.5e300', 'NaN']],
    ['FLOAT', ['0.30000000000000004']],
    ['TEXT', ['3.14159265358979323846']],
    ['TEXT', ['1e400']],
    ['TEXT', ['0.5', '9007199254740993']],
    ['BOOLEAN', ['true', 'False']],
    ['TEXT', ['true', '1']],
    ['TIMESTAMP', ['2026-01-31', '2026-01-31T09:30:00Z', '2026-01-31 09:30:00.5+02:00']],
    ['TEXT', ['2026-02-30']],
    ['TEXT', ['31.01.2026']],
    ['JSONB', ['{"a": 1}', '[]']],
    ['TEXT', ['{a}']],
    ['TEXT', []],
    ['TEXT', [' 1']],
  ] as [string, string[]][])('%s for %j', (type, values) => expect(typeOf(...values)).toBe(type));
});
