/**
 * Rows from the bytes of a DataRow message straight to the bytes of a JSON answer. An encoder is made once for a
 * result; it then writes row after row without an object or a string for any of them.
 *
 * A DataRow body (Postgres manual 54.7) is an int16 count of fields, then each field as int32 length (-1: NULL) and
 * bytes. The fields must have been asked for in the formats of {@link resultFormat}.
 */
import type { ByteWriter } from './byte-writer.js';
import { outputNames, type ResultColumn } from './columns.js';
import { encoderOf } from './types.js';
import { writeField } from './value.js';

/** Writes the row `message[start, end)`, the body of a DataRow, to the end of `out`. */
export type RowEncoder = (message: Buffer, start: number, end: number, out: ByteWriter) => void;

/** `object`: `{"a":1,"b":null}`, keys by {@link outputNames}. `array`: `[1,null]`. */
export type RowMode = 'object' | 'array';

const COUNT_BYTES = 2;

/** Rows as JSON, each on one line and without a line end. */
export function jsonRowEncoder(columns: readonly ResultColumn[], mode: RowMode): RowEncoder {
  const names = outputNames(columns);
  const [open, close] = mode === 'object' ? ['{', '}'] : ['[', ']'];
  const cells = columns.map((column, i) => {
    const key = mode === 'object' ? `${JSON.stringify(names[i])}:` : '';
    return { before: Buffer.from(`${i === 0 ? open : ','}${key}`), write: encoderOf(column.typeOid).json };
  });
  const empty = open + close;

  return (message, start, _end, out) => {
    let at = start + COUNT_BYTES;
    for (const { before, write } of cells) {
      out.append(before);
      at = writeField(message, at, write, out);
    }
    out.ascii(cells.length === 0 ? empty : close);
  };
}
