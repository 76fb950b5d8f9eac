/** Cells as their JSON text: nothing is lost or rounded between the service and the clipboard. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { membersOf, preview, textOf } from '../../console/src/results/cells.js';
import { toJsonText, toMarkdown, toTsv } from '../../console/src/results/copy.js';
import { cellsOf } from '../../src/import/json-records.js';
import { Result } from '../../console/src/results/result.js';

describe('cells', () => {
  it('are the elements of any JSON array, and the members of any object', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (values) => {
        expect(cellsOf(JSON.stringify(values)).map((cell) => JSON.parse(cell) as unknown)).toEqual(
          JSON.parse(JSON.stringify(values)),
        );
      }),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
        const members = [...membersOf(JSON.stringify(object))].map(([key, text]) => [key, JSON.parse(text) as unknown]);
        expect(members).toEqual(Object.entries(JSON.parse(JSON.stringify(object)) as object));
      }),
    );
  });

  it('keep every digit', () => {
    expect(cellsOf('[9007199254740993,1.50,-0,1e400,"NaN"]')).toEqual([
      '9007199254740993',
      '1.50',
      '-0',
      '1e400',
      '"NaN"',
    ]);
  });

  it('show long and unusual values on one line, without cutting an escape sequence', () => {
    expect(preview('"a\\nb\\tc"', 'TEXT')).toBe('a⏎b⇥c');
    expect(preview('"x"', 'JSONB')).toBe('"x"');
    expect(textOf('"x"', 'TEXT')).toBe('x');
    for (let length = 590; length < 610; length++) {
      for (const escape of ['\\u00e9', '\\\\', '\\"', '\\n']) {
        expect(preview(`"${'a'.repeat(length)}${escape.repeat(400)}"`, 'TEXT')).toMatch(/^a{300}…$/);
      }
    }
    expect(preview(`"${'\\\\'.repeat(2_000)}"`, 'TEXT')).toMatch(/^\\{298,300}…$/);
  });

  it('are copied for spreadsheets, programs and readers', () => {
    const rectangle = {
      columns: [
        { name: 'n', type: 'numeric' },
        { name: 'te|xt', type: 'TEXT' },
        { name: 'json', type: 'JSONB' },
      ],
      rows: [
        cellsOf('[1.50,"a\\t\\"b\\"\\n","x"]'),
        cellsOf('[9007199254740993,null,{"a":1.0}]'),
        cellsOf('[0,"",null]'),
      ],
    };
    expect(toTsv(rectangle, true)).toBe(
      'n\tte|xt\tjson\n1.50\t"a\t""b""\n"\t"""x"""\n9007199254740993\t\t"{""a"":1.0}"\n0\t\t',
    );
    expect(toJsonText(rectangle)).toContain('{"n": 9007199254740993, "te|xt": null, "json": {"a":1.0}}');
    expect(toMarkdown(rectangle).split('\n')[0]).toBe('| n | te\\|xt | json |');
    expect(toMarkdown(rectangle)).toContain('a\t"b"<br>');
  });
});

describe('a result', () => {
  it('holds 100,000 rows and counts the others', () => {
    const result = new Result([{ name: 'n', type: 'integer' }]);
    for (let n = 0; n < 100_001; n++) result.take(`[${n}]`);
    result.end('SELECT', 100_001);
    expect([result.held, result.rowCount.value, result.cells(99_999)]).toEqual([100_000, 100_001, ['99999']]);
  });

  it('holds 64 MiB of text and counts the others', () => {
    const result = new Result([{ name: 't', type: 'TEXT' }]);
    const line = `["${'x'.repeat(1024 * 1024)}"]`;
    for (let n = 0; n < 80; n++) result.take(line);
    result.breakOff();
    expect([result.held, result.rowCount.value]).toEqual([64, 80]);
  });
});
