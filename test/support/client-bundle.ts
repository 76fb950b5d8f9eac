/** The client as a browser gets it: one minified script, made as a page's bundler would make it. */
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';

const entry = fileURLToPath(new URL('../../src/client/index.ts', import.meta.url));
const src = fileURLToPath(new URL('../../src/', import.meta.url));

export interface Bundle {
  /** `cdp` is a global of it, with the exports. */
  readonly code: string;
  readonly gzippedBytes: number;
  /** What is in it: files of src by their path, anything else as it is named. */
  readonly modules: readonly string[];
}

export async function bundleClient(): Promise<Bundle> {
  const build = await rolldown({ input: entry, platform: 'browser' });
  const { output } = await build.generate({ format: 'iife', name: 'cdp', minify: true });
  await build.close();
  const [{ code, moduleIds, imports }] = output;
  const modules = [...moduleIds.map((path) => path.replace(src, '')), ...imports].sort();
  return { code, gzippedBytes: gzipSync(code, { level: 9 }).length, modules };
}
