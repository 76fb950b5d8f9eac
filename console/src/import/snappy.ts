/** Snappy without WebAssembly, in the place of `hysnappy` (vite.config.ts), for the readers of Parquet. */
import { snappyUncompress as uncompress } from 'hyparquet';

export function snappyUncompress(packed: Uint8Array, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  uncompress(packed, bytes);
  return bytes;
}

export const snappyUncompressor = (): typeof snappyUncompress => snappyUncompress;
