/** Reading files: CSV and JSON of any shape, column names, inferred types. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnNames } from '../../src/import/column-names.js';
import { csvRecords } from '../../src/import/csv-reader.js';
import { detectFormat } from '../../src/import/format.js';
import { openText } from '../../src/import/source.js';
import { cellEncoder, misreading, type Notation } from '../../src/import/values.js';
import { jsonItems, jsonLines, membersOf } from '../../src/import/json-records.js';
import { epochTimestamp, parseTimestamp } from '../../src/import/timestamps.js';
import { candidatesFor } from '../../src/import/type-candidates.js';
import { TypeInference } from '../../src/import/type-inference.js';

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

const CSV = { delimiter: ',', hasQuotes: true, firstLine: 1 };
const cell = fc.oneof(fc.constant(null), fc.constant(''), fc.string(), fc.stringMatching(/^[",;\n\r a]{0,5}$/));

describe('CSV', () => {
  it('is read as it was written, wherever its text is split: quotes, line breaks, NULL and ""', async () => {
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
        const read = await collected(csvRecords(pieces(text, lengths), { ...CSV, delimiter }, 'file'));
        expect(read.map(({ cells }) => cells)).toEqual(rows);
      },
    );
    await fc.assert(property, { seed: 1, numRuns: 500 });
  });

  it('is read with quotes escaped by a backslash, wherever its text is split', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.tuple(fc.stringMatching(/^[\\",n\n]{0,6}$/), fc.string()), { minLength: 1 }),
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 }),
      fc.constantFrom('\\"', '""'),
      async (rows, lengths, quote) => {
        const written = (value: string) => `"${value.replaceAll('\\', '\\\\').replaceAll('"', () => quote)}"`;
        const text = rows.map((row) => row.map(written).join(',')).join('\n');
        const read = await collected(csvRecords(pieces(text, lengths), { ...CSV, escape: '\\' }, 'file'));
        expect(read.map(({ cells }) => cells)).toEqual(rows);
      },
    );
    await fc.assert(property, { seed: 2, numRuns: 500 });
    // As in Postgres, a backslash before anything else is one.
    const [row] = await collected(csvRecords(['"a\\nb",\\"'], { ...CSV, escape: '\\' }, 'file'));
    expect(row?.cells).toEqual(['a\\nb', '\\"']);
  });

  it('numbers its lines like an editor', async () => {
    const read = await collected(csvRecords(['a,"x\ny"\r\n\r\nb,c\n'], CSV, 'file'));
    expect(read.map(({ line }) => line)).toEqual([1, 4]);
  });

  it('reads an empty line as NULL if records have one field, and skips it if they have more', async () => {
    const cells = async (text: string) => (await collected(csvRecords([text], CSV, 'file'))).map((row) => row.cells);
    expect(await cells('a\n\n1\n')).toEqual([['a'], [null], ['1']]);
    expect(await cells('a,b\n\n1,2\n')).toEqual([
      ['a', 'b'],
      ['1', '2'],
    ]);
  });
});

it('CSV without quoting reads quotes as text', async () => {
  const read = await collected(csvRecords(['a,5"\n"b,"c"\n'], { ...CSV, hasQuotes: false }, 'file'));
  expect(read.map(({ cells }) => cells)).toEqual([
    ['a', '5"'],
    ['"b', '"c"'],
  ]);
});

it('NDJSON with line ends of any system is read line by line, wherever its text is split', async () => {
  const property = fc.asyncProperty(
    fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { minLength: 1 }),
    fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
    fc.constantFrom('\n', '\r\n', '\r'),
    fc.boolean(),
    async (records, lengths, end, isEnded) => {
      const text = records.map((record) => JSON.stringify(record)).join(end) + (isEnded ? end : '');
      const read = await collected(jsonLines(fromSync(pieces(text, lengths)), 'file'));
      expect(read.map(({ text }) => JSON.parse(text) as unknown)).toEqual(JSON.parse(JSON.stringify(records)));
      expect(read.map(({ line }) => line)).toEqual(records.map((_, i) => i + 1));
    },
  );
  await fc.assert(property, { seed: 5, numRuns: 200 });
  expect(await detectFormat('a.json', '{\r  "a": 1\r}\r', true, { quotes: true })).toMatchObject({ kind: 'json' });
  for (const [head, kind] of [
    ['{"a":"}{"}{"a":2}', 'json'],
    ['{"a":1} {"a":2}', 'json'],
    ['{"a":"}{"}', 'ndjson'],
    ['{"a":[{"b":1},{"b"', 'ndjson'],
  ] as const)
    expect(await detectFormat('a.json', head, true, { quotes: true }), head).toMatchObject({ kind });
});

it.each([
  [';', 'Estratto del 2025-01-06\nid;name;lat\n1;A;45,12\n2;B;46,01\n3;C;44,9\n'],
  [';', 'Report, January\n\nby day\nid;name;lat\n1;A;45,12\n2;B;46,01\n3;C;44,9\n4;D;1,5\n'],
  ['\t', 'Report\na\tb\n1,5\t2,5\n3,5\t4\n'],
  [';', 'lat;lon\n45,1;46,2\n47,1;48,2\n'],
  [',', 'note\nhello; world\nhello\na; b; c\n'],
])('the delimiter %j is found below lines of titles', async (delimiter, head) => {
  expect(await detectFormat('a.csv', head, true, { quotes: true })).toEqual({ kind: 'delimited', delimiter });
});

it('--skip-lines counts line ends of any system, wherever the text is split', async () => {
  for (const end of ['\n', '\r\n', '\r']) {
    for (const length of [1, 2, 3, 100]) {
      const text = fromSync(pieces(['title', 'more', 'a,b', '1,2'].join(end), [length]));
      const input = { label: 'f', name: 'f.csv', size: null, bytesRead: () => 0, close: () => undefined, text };
      const { header, records } = await openText(input, { quotes: true, skipLines: 2, decimal: '.' });
      expect([header, await collected(records)]).toEqual([['a', 'b'], [{ line: 4, cells: ['1', '2'] }]]);
    }
  }
});

it('is a record, not a declaration of columns, if a line of NDJSON has null among them', async () => {
  const line = '{"columns":[{"name":"a","type":"TEXT"},null]}';
  const text = fromSync(pieces(line, [100]));
  const input = { label: 'f', name: 'f.ndjson', size: null, bytesRead: () => 0, close: () => undefined, text };
  const { types, records } = await openText(input, { quotes: true, skipLines: 0, decimal: '.' });
  expect([types, await collected(records)]).toMatchObject([undefined, [{ line: 1 }]]);
});

describe('JSON, as an array or as objects one after another,', () => {
  it('is split between its items, wherever its text is split into chunks', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.dictionary(fc.string(), fc.jsonValue())),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      fc.constantFrom(undefined, 2),
      fc.constantFrom('array', '', '\n', '\r\n\r\n'),
      async (items, lengths, space, between) => {
        const array = JSON.stringify(items, null, space);
        const objects = items.map((item) => JSON.stringify(item, null, space)).join(between);
        const text = between === 'array' || items.length === 0 ? array : objects;
        const read = await collected(jsonItems(fromSync(pieces(text, lengths)), 'file'));
        expect(read.map(({ text }) => JSON.parse(text) as unknown)).toEqual(JSON.parse(JSON.stringify(items)));
      },
    );
    await fc.assert(property, { seed: 1, numRuns: 300 });
  });

  it.each(['[1,]', '[1 2', '{"a":1}, {"a":2}', '{"a":1', '{}[]', '[1] 2', ''])(
    'that is %s is refused',
    async (text) => {
      await expect(collected(jsonItems(fromSync([text]), 'file'))).rejects.toThrow('file, line 1');
    },
  );
});

describe('the members of a JSON object', () => {
  it('are found as they are written, whatever they contain', () => {
    const property = fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.constantFrom(undefined, 2),
      (object, space) => {
        const members = membersOf(JSON.stringify(object, null, space)) ?? [];
        const read = members.map(([name, value]) => [name, JSON.parse(value) as unknown]);
        expect(read).toEqual(Object.entries(JSON.parse(JSON.stringify(object)) as object));
      },
    );
    fc.assert(property, { seed: 3, numRuns: 500 });
    expect(membersOf(' {"a\\"b" : 12345678901234567890 , "a":1.0e5,"a":{}} ')).toEqual([
      ['a"b', '12345678901234567890'],
      ['a', '1.0e5'],
      ['a', '{}'],
    ]);
  });

  it.each(['[]', '1', '{"a":1', '{"a":1}{}', ''])('do not exist in %s', (text) => {
    expect(membersOf(text)).toBeUndefined();
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

const PLAIN: Notation = { decimal: '.' };

describe('types', () => {
  const inferred = (values: readonly string[], notation: Notation = PLAIN): TypeInference => {
    const inference = new TypeInference(candidatesFor(notation));
    values.forEach((value, i) => inference.addText(value, i + 2));
    return inference;
  };
  it.each([
    ['INTEGER', ['1', '-9223372036854775808', '9223372036854775807', '0']],
    ['INTEGER', [' 1', '2 ']],
    ['TEXT', ['9223372036854775808']],
    ['TEXT', ['1', '007']],
    ['TEXT', ['+49 30']],
    ['TEXT', ['+5']],
    ['FLOAT', ['1', '0.1', '-1.5e300', 'NaN', '.5']],
    ['FLOAT', ['0.30000000000000004']],
    ['TEXT', ['3.14159265358979323846']],
    ['TEXT', ['1e400']],
    ['TEXT', ['0.5', '9007199254740993']],
    ['TEXT', ['1,234']],
    ['BOOLEAN', ['true', 'False']],
    ['TEXT', ['true', '1']],
    ['TEXT', ['yes', 'no']],
    ['TIMESTAMP', ['2026-01-31', '2026-01-31T09:30:00Z', '2026-01-31 09:30:00.5+02:00']],
    ['TIMESTAMP', ['2026-01-31 09:30', '2026-01-31 09:30:00.5+00', '2026/1/31', '31-Jan-2026', 'Jan 31, 2026']],
    ['TIMESTAMP', ['31.01.2026', '01.02.2026']],
    ['TIMESTAMP', ['1/2/2026 3:04 PM', '1/31/2026 12:00 AM']],
    ['TEXT', ['01.02.2026']],
    ['TEXT', ['31.01.2026', '01.31.2026']],
    ['TEXT', ['2026-02-30']],
    ['TEXT', ['12:30']],
    ['JSONB', ['{"a": 1}', '[]']],
    ['TEXT', ['{a}']],
    ['TEXT', []],
  ] as [string, string[]][])('%s for %j', (type, values) => expect(inferred(values).type).toBe(type));

  it.each([
    ['no values', []],
    ['digits of 007 would be lost', ['1', '007']],
    ['digits of +4930123456 would be lost', ['+4930123456']],
    [undefined, ['James', '007', 'Q']],
    ['INTEGER except for "NA", "n/a": --null NA --null n/a', ['1', '2', 'NA', '3', 'n/a', 'NA', '4', '5']],
    ['FLOAT except for "oops" (line 3)', ['1.5', 'oops', '2', '3']],
    ['day or month first? --dates dmy or mdy', ['01/02/2026', '03/04/2026']],
    ['INTEGER with --thousands ,', ['1,234,567', '12']],
    ['INTEGER with --thousands , or FLOAT with --decimal ,', ['1,234']],
    ['FLOAT with --decimal ,', ['1234,5', '12', '0,25']],
    ['FLOAT with --decimal , --thousands .', ['1.234,5', '12', '0,25']],
    ['FLOAT with --decimal , --thousands " "', ['1 234,5', '12\u00a0345', '1\u202f234,25']],
    [`FLOAT with --thousands "'"`, ["1'234.50", '12’345.25']],
    ['numbers with a unit', ['5%', '12.5 %', '-3%']],
    ['numbers with a unit', ['$1,234.00', '($5.00)', '-$3', '$0.99']],
    ['numbers with a unit', ['1.234,00 €', 'EUR 5', '5 EUR']],
    ['a year of two digits', ['13/02/24', '3/4/24 15:45']],
    [undefined, ['A1%', '%', '$']],
    ['BOOLEAN with --types', ['yes', 'no', 'Y']],
    ['FLOAT with --decimal , except for "n/a": --null n/a', ['1,5', 'n/a', '2,25', '3']],
    ['TIMESTAMP except for "n/a": --null n/a', ['31/01/2026', 'n/a', '01/02/2026', '03/02/2026']],
    ['day or month first? --dates dmy or mdy', ['01/02/2026', '31/31/2026', '03/04/2026']],
    // More than a mistake or two: they mean something.
    [
      'TIMESTAMP except for "0000-00-00" (line 2)',
      [...'1234'].flatMap((n) => ['0000-00-00', `2026-01-0${n}`, '2026-02-01']),
    ],
    [undefined, ['12-11-2024', '45-67-1234', '99-98-1234']],
  ] as [string | undefined, string[]][])('the reason: %s', (reason, values) => {
    expect(inferred(values)).toMatchObject({ type: 'TEXT', reason });
  });

  it.each([
    ['INTEGER', ['1', '"9223372036854775807"', 'null', '"-9007199254740992"']],
    ['FLOAT', ['0.5', '"NaN"', '"-Infinity"', '1']],
    ['TEXT', ['"9223372036854775807"', '"9223372036854775806"']],
    ['TEXT', ['1', '"9007199254740991"']],
    ['TEXT', ['1', '"9223372036854775808"']],
    ['TEXT', ['0.5', '"9223372036854775807"']],
    ['TEXT', ['"NaN"']],
  ] as [string, string[]][])('%s for the JSON values %j', (type, values) => {
    const inference = new TypeInference(candidatesFor(PLAIN));
    values.forEach((value, i) => inference.addJson(value, i));
    expect(inference.type).toBe(type);
  });

  it('are kept despite an impossible date, whose record is refused', () => {
    const days = ['31/12/2026', '01/02/2026', '31/31/2026', '30/12/2026'];
    const refused = { type: 'TIMESTAMP', reason: 'TIMESTAMP except for "31/31/2026" (line 4): refused' };
    expect(inferred(days)).toMatchObject({ ...refused, dates: 'dmy' });
    expect(inferred(days, { decimal: '.', dates: 'dmy' })).toMatchObject(refused);
    expect(inferred(['2026-01-31', '2026-02-30', '2026-02-28']).type).toBe('TIMESTAMP');
    // Another order is no mistake.
    expect(inferred([...days, '12/31/2026', '12/30/2026', '12/29/2026']).type).toBe('TEXT');
  });

  it('are TEXT with a reason if "" stands for no value, however often, and not in JSON', () => {
    expect(inferred(['34', '', '40']).reason).toBe(`INTEGER except for "": --null ''`);
    expect(inferred(['2026-01-31', '2026-02-01', '', '', '', 'N/A']).reason).toBe(
      `TIMESTAMP except for "", "N/A": --null '' --null N/A`,
    );
    expect(inferred(['', '']).reason).toBeUndefined();
    const json = new TypeInference(candidatesFor(PLAIN));
    ['"2026-01-31"', '""', '"2026-02-01"'].forEach((value, i) => json.addJson(value, i + 1));
    expect(json.reason).toBe('TIMESTAMP except for "" (line 2)');
  });

  it('are numbers with a reason if they may be codes', () => {
    const reason = '1E5 is a number; if it is a code, TEXT with --types';
    expect(inferred(['12345', '1E5'])).toMatchObject({ type: 'FLOAT', reason });
    for (const plain of ['1.5e300', '1e-7', '12']) expect(inferred([plain]).reason).toBeUndefined();
  });

  it('follow the notation', () => {
    expect(inferred(['1.234,5', '12'], { decimal: ',', thousands: '.' }).type).toBe('FLOAT');
    expect(inferred(['1.234', '1234'], { decimal: ',', thousands: '.' }).type).toBe('INTEGER');
    expect(inferred(['12.34'], { decimal: ',', thousands: '.' }).type).toBe('TEXT');
    expect(inferred(['1\u202f234,5', '1 234'], { decimal: ',', thousands: ' ' }).type).toBe('FLOAT');
    // Having followed one hint, one is told the rest.
    expect(inferred(['1.234,5'], { decimal: ',' }).reason).toBe('FLOAT with --decimal , --thousands .');
    expect(inferred(['12.5'], { decimal: ',' }).reason).toBe('FLOAT with --decimal .');
    expect(inferred(['01/02/2026'], { decimal: '.', dates: 'mdy' })).toMatchObject({ type: 'TIMESTAMP', dates: 'mdy' });
    expect(inferred(['31/01/2026'], { decimal: '.', dates: 'mdy' }).type).toBe('TEXT');
  });
});

const NO_NUMBER = 'is not a number with the decimal separator ,';

describe('values', () => {
  it.each([
    ['INTEGER', PLAIN, ' 12 ', '12'],
    ['INTEGER', PLAIN, '007', '"007"'],
    ['INTEGER', { decimal: '.', thousands: ',' }, '-1,234,567', '-1234567'],
    ['INTEGER', { decimal: '.', thousands: ',' }, '1,23', '"1,23"'],
    ['INTEGER', { decimal: ',', thousands: ' ' }, '12 345', '12345'],
    ['FLOAT', PLAIN, '-.5', '-0.5'],
    ['FLOAT', { decimal: ',', thousands: '.' }, '1.234,50', '1234.50'],
    ['FLOAT', { decimal: ',', thousands: '.' }, '1234,5e3', '1234.5e3'],
    ['FLOAT', { decimal: ',' }, '1.5', '"1.5"'],
    ['BOOLEAN', PLAIN, 'Yes', 'true'],
    ['BOOLEAN', PLAIN, '0', 'false'],
    ['BOOLEAN', PLAIN, '2', '"2"'],
    ['TIMESTAMP', { decimal: '.', dates: 'dmy' }, '31/1/2026', '"2026-01-31"'],
    ['TIMESTAMP', PLAIN, '31/1/2026', '"31/1/2026"'],
    ['TEXT', { decimal: ',' }, ' 1,5 ', '" 1,5 "'],
    ['numeric(6,2)', { decimal: ',', thousands: '.' }, '1.234,5', '1234.5'],
    ['real', { decimal: ',' }, 'NaN', '"NaN"'],
    ['integer', { decimal: ',', thousands: '.' }, '1.234', '1234'],
    ['date', { decimal: '.', dates: 'dmy' }, '01/02/2026', '"2026-02-01"'],
    ['timestamp without time zone', { decimal: '.', dates: 'mdy' }, '01/02/2026 10:00', '"2026-01-02T10:00:00Z"'],
    ['date', PLAIN, 'infinity', '"infinity"'],
  ] as [string, Notation, string, string][])('%s, as %j, turns %j into %s', (type, notation, text, json) => {
    expect(cellEncoder(type, notation)(text)).toBe(json);
    expect(misreading(type, notation)?.(text)).toBe(json === '"1.5"' ? NO_NUMBER : undefined);
  });

  it('are wrong where Postgres would read them otherwise than the file means them', () => {
    expect(misreading('numeric', { decimal: ',', thousands: '.' })?.('12.34')).toContain('thousands separator .');
    for (const type of ['date', 'timestamp without time zone', 'timestamp(3) with time zone'])
      expect(misreading(type, PLAIN)?.('01/02/2026')).toBe('does not show whether the day or the month comes first');
    expect(misreading('date', { decimal: '.', dates: 'mdy' })?.('31/01/2026')).toBeDefined();
    expect(misreading('date[]', PLAIN)).toBeUndefined();
  });

  it.each([
    ['0', 0, '1970-01-01T00:00:00Z'],
    ['-1', 6, '1969-12-31T23:59:59.999999Z'],
    ['1700000000123', 3, '2023-11-14T22:13:20.123Z'],
    ['1.7000000001234567e9', 0, '2023-11-14T22:13:20.1234567Z'],
    ['17e8', 0, '2023-11-14T22:13:20Z'],
    ['-62135596800', 0, '0001-01-01T00:00:00Z'],
    ['-62135596800.000001', 0, undefined],
    ['253402300800', 0, undefined],
    ['-1700000000.25', 0, '1916-02-18T01:46:39.75Z'],
    ['1', 9, '1970-01-01T00:00:00.000000001Z'],
    ['1e999999999', 0, undefined],
    ['1e-999999999', 0, undefined],
    ['', 0, undefined],
    ['2026-01-31', 0, undefined],
  ] as const)('%s, with %d fractional digits, is the time %s', (text, below, time) => {
    expect(epochTimestamp(text, below)).toBe(time);
  });

  it.each([
    ['2026-01-31 09:30:00.123456+00', '2026-01-31T09:30:00.123456+00:00'],
    ['2026-01-31 09:30:00 UTC', '2026-01-31T09:30:00Z'],
    ['2026-01-31T09:30:00,5+0530', '2026-01-31T09:30:00.5+05:30'],
    ['2026-01-31T09:30Z', '2026-01-31T09:30:00Z'],
    ['12 June 1998', '1998-06-12'],
    ['Jun 12 1998 1:05 am', '1998-06-12T01:05:00Z'],
    ['29/02/2024', '2024-02-29'],
    ['29/02/2023', undefined],
    ['31/01/2026 24:00', undefined],
    ['31/01/2026 13:00 PM', undefined],
    ['31/01/26', undefined],
    ['2026-01-31 Europe/Berlin', undefined],
    ['31-Foo-2026', undefined],
  ])('the time %s becomes %s', (text, time) => expect(parseTimestamp(text, 'dmy')).toBe(time));
});
