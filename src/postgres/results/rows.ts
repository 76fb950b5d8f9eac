/** Rows of a result as JSON. */
import { AS_JSON } from './assembly/kinds.js';
import { outputNames, type ResultColumn } from './columns.js';
import { RowEncoder } from './row-encoder.js';
import { encoderOf } from './types.js';
import { writeField } from './value.js';

/** `object`: `{"a":1,"b":null}`, keys by {@link outputNames}. `array`: `[1,null]`. */
export type RowMode = 'object' | 'array';

/** Where rows stand: each behind a comma, in the list of an answer, or on a line of its own. */
type RowPlace = 'list' | 'line';

export function jsonRowEncoder(columns: readonly ResultColumn[], mode: RowMode, place: RowPlace): RowEncoder {
  const open = `${place === 'list' ? ',' : ''}${mode === 'object' ? '{' : '['}`;
  const close = `${mode === 'object' ? '}' : ']'}${place === 'line' ? '\n' : ''}`;
  const keys = outputNames(columns).map((name, i) =>
    Buffer.from(`${i === 0 ? open : ','}${mode === 'object' ? `${JSON.stringify(name)}:` : ''}`),
  );
  return new RowEncoder(
    columns.map(({ typeOid }) => encoderOf(typeOid)),
    {
      format: AS_JSON,
      keys,
      ending: Buffer.from(columns.length === 0 ? open + close : close),
      writerOf: ({ json }) => json,
      writeField,
    },
  );
}
