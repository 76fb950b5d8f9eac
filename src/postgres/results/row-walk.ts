/**
 * The walk over rows, `assembly/rows.ts`, which the build compiles to WebAssembly. It waits for nothing in between, so one
 * instance serves all results; its memory never grows.
 */
import { readFileSync } from 'node:fs';
import { ByteWriter, type RowOutput } from './byte-writer.js';
import type { ValueWriter } from './value.js';

/** As far as it is used here; the types of Node leave it to those of browsers. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
};

interface Global {
  readonly value: number;
}

/** Addresses are bytes of its memory. */
interface Walk {
  readonly memory: { readonly buffer: ArrayBuffer };
  walk(end: number, most: number, bytes: number): number;
  readonly read: Global;
  readonly count: Global;
  readonly plan: Global;
  readonly messages: Global;
  readonly value: Global;
  readonly rows: Global;
  readonly PLAN_BYTES: Global;
  readonly MESSAGE_BYTES: Global;
  readonly VALUE_BYTES: Global;
}

/** What a result is to the walk. */
export interface WalkPlan {
  /** As `assembly/rows.ts` reads it. */
  readonly bytes: Uint8Array;
  /** For what the walk does not write itself, a writer for each column. */
  readonly writers: readonly ValueWriter[];
}

const host = { writeValue };
const module = new WebAssembly.Module(readFileSync(new URL('rows.wasm', import.meta.url)));
const walk = new WebAssembly.Instance(module, { host }).exports as Walk;
const memory = Buffer.from(walk.memory.buffer);
const [planAt, messagesAt, rowsAt] = [walk.plan.value, walk.messages.value, walk.rows.value];
const [mostPlan, mostMessages] = [walk.PLAN_BYTES.value, walk.MESSAGE_BYTES.value];

/** Where {@link writeValue} writes, until a value needs more room. */
const valueBytes = memory.subarray(walk.value.value, walk.value.value + walk.VALUE_BYTES.value);
let value = new ByteWriter(valueBytes);

let current: WalkPlan | null = null;

/** How many rows the last walk has written. */
export let rowsWalked = 0;

/**
 * Writes rows of whole DataRow messages of `buffer[start, end)` to `out`, until something else comes, or a row that is not
 * for the walk.
 * @param most rows
 * @param mostBytes that they may take
 * @returns where the first message begins that was not taken
 */
export function walkRows(
  plan: WalkPlan,
  buffer: Buffer,
  start: number,
  end: number,
  most: number,
  mostBytes: number,
  out: RowOutput,
): number {
  rowsWalked = 0;
  if (plan.bytes.length > mostPlan) return start;
  if (plan !== current) {
    memory.set(plan.bytes, planAt);
    current = plan;
  }
  const size = Math.min(end - start, mostMessages);
  buffer.copy(memory, messagesAt, start, start + size);
  const written = walk.walk(messagesAt + size, most, mostBytes);
  rowsWalked = walk.count.value;
  if (written > 0) {
    const writer = out.room(written);
    memory.copy(writer.bytes, writer.length, rowsAt, rowsAt + written);
    writer.length += written;
  }
  return start + walk.read.value - messagesAt;
}

/** Behind the value lie those of others, which its writer cannot reach. */
function writeValue(column: number, start: number, end: number): number {
  value.length = 0;
  current?.writers[column]?.(memory.subarray(0, end), start, end, value);
  if (value.bytes === valueBytes) return value.length;
  value.free();
  value = new ByteWriter(valueBytes);
  return -1;
}
