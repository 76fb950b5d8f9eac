/** Loads programs from `assembly/` folders that were compiled to WebAssembly. Each instance has its own memory. */
import { readFileSync } from 'node:fs';

/** The part that is used here; Node's types do not declare it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
};

/** Addresses are offsets in its memory. */
interface WasmExports {
  readonly memory: { readonly buffer: ArrayBuffer };
}

/** By file; each is compiled at its first use. */
const modules = new Map<string, object>();

function moduleOf(file: URL): object {
  const compiled = modules.get(file.href);
  if (compiled !== undefined) return compiled;
  const module = new WebAssembly.Module(readFileSync(file));
  modules.set(file.href, module);
  return module;
}

export class WasmInstance<Exports extends WasmExports> {
  readonly exports: Exports;
  private memory = Buffer.alloc(0);

  /** @param host the imports of the program: `assembly/host.ts` */
  constructor(file: URL, host: Readonly<Record<string, unknown>>) {
    this.exports = new WebAssembly.Instance(moduleOf(file), { host }).exports as Exports;
  }

  /** The whole memory. When it grows, this becomes another object, and the old one is empty. */
  get bytes(): Buffer {
    if (this.memory.length === 0) this.memory = Buffer.from(this.exports.memory.buffer);
    return this.memory;
  }
}
