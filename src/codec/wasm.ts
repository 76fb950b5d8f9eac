/** Programs of `assembly/` folders, compiled to WebAssembly. Each instance has a memory of its own. */
import { readFileSync } from 'node:fs';

/** As far as it is used here: Node's types do not declare it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
};

/** Addresses are bytes of its memory. */
interface WasmExports {
  readonly memory: { readonly buffer: ArrayBuffer };
}

/** By file; each is compiled when it is first used. */
const modules = new Map<string, object>();

function moduleOf(file: URL): object {
  const known = modules.get(file.href);
  if (known !== undefined) return known;
  const module = new WebAssembly.Module(readFileSync(file));
  modules.set(file.href, module);
  return module;
}

export class WasmInstance<Exports extends WasmExports> {
  readonly exports: Exports;
  private memory = Buffer.alloc(0);

  /** @param host what the program imports: `assembly/host.ts` */
  constructor(file: URL, host: Readonly<Record<string, unknown>>) {
    this.exports = new WebAssembly.Instance(moduleOf(file), { host }).exports as Exports;
  }

  /** All of its memory. When that grows, this becomes another object, and the old one is empty. */
  get bytes(): Buffer {
    if (this.memory.length === 0) this.memory = Buffer.from(this.exports.memory.buffer);
    return this.memory;
  }
}
