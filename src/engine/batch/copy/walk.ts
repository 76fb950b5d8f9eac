/** An instance of the walk over a batch, `assembly/walk.ts`, which the build compiles to WebAssembly. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { LIMITS } from '../../../contract/limits.js';

/** As far as it is used here; the types of Node leave it to those of browsers. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
};

interface Global {
  readonly value: number;
}

/** What the walk gives; an address is a byte of its memory, 0 for none; 0 is false too. */
export interface Walk {
  readonly memory: { readonly buffer: ArrayBuffer };
  placePlan(length: number): number;
  usePlan(): number;
  placeBatch(length: number): number;
  walk(): number;
  hasColumn(index: number): number;
  placeText(length: number): number;
  readonly records: Global;
  readonly rows: Global;
  readonly rowsEnd: Global;
  /** As long as it is the same, {@link hasColumn} says the same. */
  readonly placement: Global;
}

/** What it asks for (`assembly/host.ts`). */
interface WalkHost {
  readonly readCell: (column: number, start: number, end: number, to: number) => number;
  readonly readDouble: (start: number, end: number) => number;
}

const { recordsPerBatch, jsonDepth } = LIMITS;

/** Reads and compiles it. @returns makes instances, each with memory of its own */
export function loadWalk(): (host: WalkHost) => Walk {
  const module = new WebAssembly.Module(readFileSync(new URL('walk.wasm', import.meta.url)));
  const hashFactor = randomBytes(8).readBigUInt64LE() | 1n;
  return ({ readCell, readDouble }) => {
    const host = { recordsPerBatch, jsonDepth, hashFactor, readCell, readDouble };
    return new WebAssembly.Instance(module, { host }).exports as Walk;
  };
}
