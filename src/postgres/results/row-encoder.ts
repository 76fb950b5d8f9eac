/**
 * Rows of a result as bytes of an answer, from the bytes of DataRow messages, without an object or a string for any of
 * them. An encoder is made once for a result. Nearly all rows go by the walk (`row-walk.ts`); the writers of types write what it
 * leaves to them, and whole rows that are too long for it.
 *
 * A DataRow body (Postgres manual 54.7) is an int16 count of fields, then each field as int32 length (-1: NULL) and
 * bytes. The fields must have been asked for in the formats of {@link resultFormat}.
 */
import { notTheProtocol } from '../errors.js';
import { messageSize } from '../wire/framing.js';
import { MESSAGE_HEADER } from '../wire/messages.js';
import type { ByteWriter, RowOutput } from './byte-writer.js';
import { rowsWalked, type WalkPlan, walkRows } from './row-walk.js';
import type { ValueEncoder, ValueWriter } from './value.js';

/** What rows become. */
interface RowForm {
  /** `AS_…` of `assembly/kinds.ts`. */
  readonly format: number;
  /** What stands before each value. */
  readonly keys: readonly Buffer[];
  /** What stands behind a row: at most four bytes. */
  readonly ending: Buffer;
  /** How a value of a type is written in this form. */
  readonly writerOf: (encoder: ValueEncoder) => ValueWriter;
  /** Writes a field, whose int32 length is at `at`; returns the position behind it. */
  readonly writeField: (input: Buffer, at: number, write: ValueWriter, out: ByteWriter) => number;
}

export class RowEncoder {
  /** How many rows the last {@link take} has written. */
  rows = 0;
  private readonly plan: WalkPlan;

  constructor(
    encoders: readonly ValueEncoder[],
    private readonly form: RowForm,
  ) {
    this.plan = { bytes: planOf(encoders, form), writers: encoders.map(form.writerOf) };
  }

  /**
   * Writes rows of the whole messages in `buffer[start, end)`, the first of which is a DataRow, to the end of `out`: at
   * least one, however long it becomes, and at most `most`.
   * @param mostBytes that several may take
   * @returns where the first message begins that was not taken
   */
  take(buffer: Buffer, start: number, end: number, most: number, mostBytes: number, out: RowOutput): number {
    const behind = walkRows(this.plan, buffer, start, end, most, mostBytes, out);
    this.rows = rowsWalked;
    if (this.rows > 0) return behind;
    const size = messageSize(buffer, start);
    this.write(buffer.subarray(start + MESSAGE_HEADER, start + size), out.room(size));
    this.rows = 1;
    return start + size;
  }

  /**
   * Writes one row to the end of `out`, without the walk.
   * @param body of the DataRow: behind it lie rows of others, which no writer can reach
   * @throws ConnectionLost where its fields are not as long as it is
   */
  write(body: Buffer, out: ByteWriter): void {
    const { keys, ending, writeField } = this.form;
    const { writers } = this.plan;
    let at = FIELDS;
    if (fieldsEnd(body, writers.length) !== body.length) throw notTheProtocol();
    for (let i = 0; i < writers.length; i++) {
      out.append(keys[i] as Buffer);
      at = writeField(body, at, writers[i] as ValueWriter, out);
    }
    out.append(ending);
  }
}

/** Behind the count of the fields. */
const FIELDS = 2;

function fieldsEnd(body: Buffer, count: number): number {
  let at = FIELDS;
  for (let i = 0; i < count && at + 4 <= body.length; i++) at += 4 + Math.max(0, body.readInt32BE(at));
  return at;
}

function planOf(encoders: readonly ValueEncoder[], { format, keys, ending }: RowForm): Buffer {
  const words = [encoders.length, format, ending.length, 0, Buffer.concat(keys).length];
  encoders.forEach(({ kind }, i) => words.push(kind, keys[i]?.length ?? 0));
  const head = Buffer.from(Int32Array.from(words).buffer);
  ending.copy(head, 12);
  return Buffer.concat([head, ...keys]);
}
