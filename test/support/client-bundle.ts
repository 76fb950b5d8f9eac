/** The client as a browser loads it: one minified script, built as a bundler would build it for a page. */
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
