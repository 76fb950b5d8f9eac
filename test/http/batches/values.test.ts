/**
 * What a cell may be, and what SQL returns for it (contract C5), byte for byte, for each of the six types on
 * every Postgres of the run.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../../support/postgres.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

/** The JSON that is sent for a cell, and the JSON that a SELECT answers. */
type Kept = readonly (readonly [sent: string, answered: string])[];

const INT64_MAX = '9223372036854775807';
const INT64_MIN = '-9223372036854775808';
const HUGE = '1' + '0'.repeat(131_071);

const KEPT: Record<string, Kept> = {
  TEXT: [
    ['"plain"', '"plain"'],
    ['""', '""'],
    ['" \\t\\n\\r "', '" \\t\\n\\r "'],
    ['"quote \\" backslash \\\\ slash \\/"', '"quote \\" backslash \\\\ slash /"'],
    ['"{a,NULL,\\"b\\"}"', '"{a,NULL,\\"b\\"}"'],
    ['"NULL"', '"NULL"'],
    ['"\\\\N"', '"\\\\N"'],
    ['"\\u00e9 \\u4e2d \\ud83d\\ude00"', '"é 中 😀"'],
    ['"é 中 😀"', '"é 中 😀"'],
    ['"\\u0001\\u001f\\u007f"', '"\\u0001\\u001f\u007f"'],
    ['"\u2028\ufeff"', '"\u2028\ufeff"'],
    [`"'; DROP TABLE cells; --"`, `"'; DROP TABLE cells; --"`],
    ['"$1 %s ${x}"', '"$1 %s ${x}"'],
    ['9007199254740993', '"9007199254740993"'],
    ['1.0', '"1.0"'],
    ['1e3', '"1e3"'],
    ['-0', '"-0"'],
    ['true', '"true"'],
    ['false', '"false"'],
    ['null', 'null'],
  ],
  INTEGER: [
    ['0', '0'],
    ['-0', '0'],
    ['1.0', '1'],
    ['1e3', '1000'],
    ['1.5e1', '15'],
    ['100e-2', '1'],
    ['9007199254740991', '9007199254740991'],
    ['-9007199254740991', '-9007199254740991'],
    ['9007199254740992', '"9007199254740992"'],
    ['9007199254740993', '"9007199254740993"'],
    ['-9007199254740993', '"-9007199254740993"'],
    [INT64_MAX, `"${INT64_MAX}"`],
    [INT64_MIN, `"${INT64_MIN}"`],
    [`"${INT64_MAX}"`, `"${INT64_MAX}"`],
    ['"42"', '42'],
    ['"-42"', '-42'],
    ['0e999999999999', '0'],
    ['null', 'null'],
  ],
  FLOAT: [
    ['0', '0'],
    ['-0.0', '-0'],
    ['1.50', '1.5'],
    ['1e3', '1000'],
    ['0.1', '0.1'],
    ['"0.1"', '0.1'],
    ['"-1e-3"', '-0.001'],
    ['9007199254740993', '9007199254740992'],
    ['0.30000000000000004', '0.30000000000000004'],
    ['1.7976931348623157e308', '1.7976931348623157e+308'],
    ['5e-324', '5e-324'],
    ['1e21', '1e+21'],
    ['0e-999', '0'],
    ['"NaN"', '"NaN"'],
    ['"Infinity"', '"Infinity"'],
    ['"-Infinity"', '"-Infinity"'],
    ['null', 'null'],
  ],
  BOOLEAN: [
    ['true', 'true'],
    ['false', 'false'],
    ['null', 'null'],
  ],
  TIMESTAMP: [
    ['"2026-01-31T12:34:56Z"', '"2026-01-31T12:34:56Z"'],
    ['"2026-01-31t12:34:56z"', '"2026-01-31T12:34:56Z"'],
    ['"2026-01-31 12:34:56Z"', '"2026-01-31T12:34:56Z"'],
    ['"2026-01-31"', '"2026-01-31T00:00:00Z"'],
    ['"2026-01-31T12:34:56"', '"2026-01-31T12:34:56Z"'],
    ['"2026-01-31T12:34:56.000001Z"', '"2026-01-31T12:34:56.000001Z"'],
    ['"2026-01-31T12:34:56.120Z"', '"2026-01-31T12:34:56.12Z"'],
    ['"2026-01-31T12:34:56.1234564Z"', '"2026-01-31T12:34:56.123456Z"'],
    ['"2026-01-31T12:34:56.1234567Z"', '"2026-01-31T12:34:56.123457Z"'],
    ['"2026-12-31T23:59:59.9999999Z"', '"2027-01-01T00:00:00Z"'],
    ['"2026-01-31T00:00:00+15:59"', '"2026-01-30T08:01:00Z"'],
    ['"2026-01-31T23:59:59-15:59"', '"2026-02-01T15:58:59Z"'],
    ['"2026-01-31T12:34:56-00:00"', '"2026-01-31T12:34:56Z"'],
    ['"2024-02-29"', '"2024-02-29T00:00:00Z"'],
    ['"2000-02-29T00:00:00Z"', '"2000-02-29T00:00:00Z"'],
    ['"2016-12-31T23:59:60Z"', '"2017-01-01T00:00:00Z"'],
    ['"2017-01-01T00:59:60+01:00"', '"2017-01-01T00:00:00Z"'],
    ['"0001-01-01T00:00:00Z"', '"0001-01-01T00:00:00Z"'],
    ['"0000-12-31T00:00:00Z"', '"0000-12-31T00:00:00Z"'],
    ['"9999-12-31T23:59:59.999999Z"', '"9999-12-31T23:59:59.999999Z"'],
    ['"9999-12-31T23:59:59-15:59"', '"+010000-01-01T15:58:59Z"'],
    [`"2026-01-31T12:34:56.${'1'.repeat(1_000)}Z"`, '"2026-01-31T12:34:56.111111Z"'],
    ['null', 'null'],
  ],
  JSONB: [
    ['{"b":1,"a":[true,null,"x"]}', '{"a": [true, null, "x"], "b": 1}'],
    ['[]', '[]'],
    ['{}', '{}'],
    ['"text"', '"text"'],
    ['""', '""'],
    ['"null"', '"null"'],
    ['1.50', '1.50'],
    ['-0', '0'],
    ['9007199254740993', '9007199254740993'],
    ['123456789012345678901234567890.12345678901234567890', '123456789012345678901234567890.12345678901234567890'],
    ['{"n":1e3}', '{"n": 1000}'],
    ['1e-5', '0.00001'],
    [HUGE, HUGE],
    ['true', 'true'],
    ['["é 中 \\ud83d\\ude00", "\\u00e9"]', '["é 中 😀", "é"]'],
    ['{"\\"\\\\":"{,}"}', '{"\\"\\\\": "{,}"}'],
    ['{"__proto__":{"constructor":1}}', '{"__proto__": {"constructor": 1}}'],
    ['{"a":1,"a":2}', '{"a": 2}'],
    ['"now"', '"now"'],
    ['{"a":null}', '{"a": null}'],
    ['null', 'null'],
  ],
};

/** U+0000 and lone surrogates, in the ways JSON can say them. */
const UNSTORABLE = ['"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udc00"', '"\\ud800x"', '"\\ude00\\ud83d"'];

/** JSON that is refused for a cell. */
const REFUSED: Record<string, readonly string[]> = {
  TEXT: ['{}', '[]', '{"a":1}', '["a"]', ...UNSTORABLE],
  INTEGER: [
    ...['1.5', '1e-1', '1e19', '1e400', '1e999999999999', '9223372036854775808', '-9223372036854775809'],
    ...['"0x10"', '"0b1"', '"0o7"', '"1_000"', '" 1"', '"1 "', '"+1"', '"01"', '"1.0"', '"1e3"', '""', '"-"', '"١"'],
    ...['"9223372036854775808"', '"NaN"', '"Infinity"', '"null"', 'true', 'false', '{}', '[]', '[1]', '"1\\n"'],
  ],
  FLOAT: [
    ...['1e400', '-1e400', '"1e400"', '1e-400', '"0x10"', '"1_000"', '" 1"', '"1 "', '"+1"', '"01"', '"1."', '".5"'],
    ...['"nan"', '"inf"', '"infinity"', '"+Infinity"', '"-NaN"', '"INFINITY"', '""', '"one"', 'true', '{}', '[]'],
  ],
  BOOLEAN: ['"true"', '"false"', '"yes"', '"no"', '"t"', '"on"', '"1"', '1', '0', '1.0', '""', '{}', '[]', '[true]'],
  TIMESTAMP: [
    ...['"now"', '"today"', '"tomorrow"', '"epoch"', '"infinity"', '"-infinity"', '"allballs"', '""', '"Z"'],
    ...['1769862896', '1769862896000', '0', 'true', '{}', '[]', '"1769862896"', '" 2026-01-31"', '"2026-01-31 "'],
    ...['"2026-1-31"', '"2026-01-32"', '"2026-13-01"', '"2026-00-10"', '"2026-02-29"', '"1900-02-29"', '"2026-01"'],
    ...['"2026-01-31T24:00:00Z"', '"2026-01-31T12:60:00Z"', '"2026-01-31T12:34:60Z"', '"2026-01-31T12:34Z"'],
    ...['"2026-01-31T12:34:56+16:00"', '"2026-01-31T12:34:56-15:60"', '"2026-01-31T12:34:56+01"', '"20260131"'],
    ...['"2026-01-31T12:34:56 Europe/Rome"', '"2026-01-31T12:34:56.Z"', '"31/01/2026"', '"2026-01-31T"'],
    ...['"2026-01-31Z"', '"10000-01-01"', '"-0001-01-01"', '"2026-01-31 BC"', '"J2460000"'],
  ],
  JSONB: [
    ...UNSTORABLE,
    ...['{"a":"\\u0000"}', '{"\\u0000":1}', '["\\ud800"]', '{"\\udc00":1}', '{"a":[{"b":"x\\u0000"}]}'],
    ...[`${HUGE}0`, '1e131072', '[1e-16384]', '{"a":1e99999999999}'],
  ],
};

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    for (const type of Object.keys(KEPT)) await project.table(`cells_${type}`, { n: 'INTEGER', v: type });
  });
  afterAll(() => service.close());

  const insert = (type: string, cells: readonly string[]) =>
    project.call('POST', `/api/cdp/data/cells_${type}`, {
      body: `[${cells.map((cell, n) => `{"n":${n},"v":${cell}}`).join(',')}]`,
    });

  /** The rows of a response as the bytes that came. */
  const rowsAsSent = async (sql: string): Promise<string> => {
    const { text } = await project.call('POST', '/api/cdp/sql', { body: { sql, row_mode: 'array' } });
    return text.slice(text.indexOf('"rows":') + '"rows":'.length, text.indexOf(',"row_count"'));
  };

  describe('works', () => {
    const expectKept = async (type: string) => {
      for (const [n, [sent, answered]] of (KEPT[type] ?? []).entries()) {
        const rows = await rowsAsSent(`SELECT v FROM "cells_${type}" WHERE n = ${n}`);
        expect(`${sent.slice(0, 60)} -> ${rows}`).toBe(`${sent.slice(0, 60)} -> [[${answered}]]`);
      }
      await project.rows(`DELETE FROM "cells_${type}"`);
    };

    it.each(Object.entries(KEPT))('%s keeps every value that it may hold', async (type, kept) => {
      const response = await insert(
        type,
        kept.map(([sent]) => sent),
      );
      expect(response.text).toContain(`"inserted_rows":${kept.length}`);
      await expectKept(type);
    });

    // A batch of which every cell is plain may take another way through the service than one with an odd cell.
    it.each(Object.entries(KEPT))('%s keeps every value that is sent alone', async (type, kept) => {
      for (const [n, [sent]] of kept.entries()) {
        const body = `[{"n":${n},"v":${sent}}]`;
        expect((await project.call('POST', `/api/cdp/data/cells_${type}`, { body })).status).toBe(201);
      }
      await expectKept(type);
    });

    it('JSON null is NULL in every type, including JSONB', async () => {
      for (const type of Object.keys(KEPT)) {
        await insert(type, ['null']);
        expect(await project.rows(`SELECT v IS NULL AS is_null FROM "cells_${type}"`)).toEqual([{ is_null: true }]);
        await project.rows(`DELETE FROM "cells_${type}"`);
      }
    });

    it('values read back the same whatever settings a statement changes', async () => {
      await insert('TIMESTAMP', ['"2026-07-31T12:34:56.5+02:00"']);
      await insert('FLOAT', ['0.1']);
      const settings = `SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'; SET extra_float_digits = -15;`;
      const sql = `${settings} SELECT t.v, f.v FROM "cells_TIMESTAMP" t, "cells_FLOAT" f`;
      const response = await project.call('POST', '/api/cdp/sql', { body: { sql, row_mode: 'array' } });
      expect(response.body.rows).toEqual([['2026-07-31T10:34:56.5Z', 0.1]]);
      await project.rows('DELETE FROM "cells_TIMESTAMP"; DELETE FROM "cells_FLOAT"');
    });
  });

  describe('refuses', () => {
    it.each(Object.entries(REFUSED))(
      '%s refuses what only Postgres would accept, and names every cell',
      async (type, cells) => {
        const body = expectFailure(await insert(type, cells), 400, 'invalid_value');
        expect(body.error_count).toBe(cells.length);
        expect(body.errors?.map(({ record, column, error }) => [record, column, error])).toEqual(
          cells.slice(0, 50).map((_, record) => [record, 'v', 'invalid_value']),
        );
        expect(await project.rows(`SELECT count(*) AS n FROM "cells_${type}"`)).toEqual([{ n: 0 }]);
      },
    );

    it('a number for a TIMESTAMP is refused with a hint at what to send', async () => {
      const body = expectFailure(await insert('TIMESTAMP', ['1769862896']), 400, 'invalid_value');
      expect(body.hint).toContain('RFC 3339');
    });

    it.each(['null', '1', 'true', '""', '"no uuid"', '"00000000-0000-0000-0000-00000000000"', '{}', '" "'])(
      'id is not a UUID: %s',
      async (id) => {
        const response = await project.call('POST', '/api/cdp/data/cells_TEXT', { body: `[{"v":"x"},{"id":${id}}]` });
        const body = expectFailure(response, 400, 'invalid_value');
        expect(body.errors).toMatchObject([{ record: 1, column: 'id', error: 'invalid_value' }]);
        expect(await project.rows('SELECT count(*) AS n FROM "cells_TEXT"')).toEqual([{ n: 0 }]);
      },
    );

    it('one batch with bad cells of all kinds names them all', async () => {
      await project.table('mixed', { t: 'TEXT', i: 'INTEGER', f: 'FLOAT', b: 'BOOLEAN', at: 'TIMESTAMP', j: 'JSONB' });
      const response = await project.call('POST', '/api/cdp/data/mixed', {
        body: `[{"t":"fine"},{"t":{},"i":1.5,"f":"x","b":1,"at":"now","j":"\\u0000","tt":1},{"i":2},{"id":7}]`,
      });
      const body = expectFailure(response, 400, 'invalid_value');
      expect(body.errors?.map(({ record, column, error }) => `${record} ${column} ${error}`)).toEqual([
        ...['t', 'i', 'f', 'b', 'at', 'j'].map((column) => `1 ${column} invalid_value`),
        '1 tt unknown_column',
        '3 id invalid_value',
      ]);
      expect(await project.rows('SELECT count(*) AS n FROM mixed')).toEqual([{ n: 0 }]);
    });
  });
});
