/** The benchmarks run on demand only, so a renamed export of the service would break them unnoticed. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

const IMPORT = /^import \{([^}]*)\} from '([^']*\/dist\/[^']*)'/gm;

interface Import {
  file: string;
  module: string;
  names: string[];
}

/** What the benchmarks import from the compiled service, by the path of the source. */
const imports: Import[] = readdirSync(join(root, 'bench'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.mjs'))
  .flatMap((file) =>
    Array.from(readFileSync(join(root, 'bench', file), 'utf8').matchAll(IMPORT), ([, names = '', path = '']) => ({
      file,
      module: relative(join(root, 'dist'), join(root, 'bench', dirname(file), path)).replace(/\.js$/, '.ts'),
      names: names.split(',').flatMap((name) => name.trim().split(' as ')[0] || []),
    })),
  );

it('the benchmarks import only what the service exports', async () => {
  expect(imports).not.toEqual([]);
  const missing: string[] = [];
  for (const { file, module, names } of imports) {
    const exported = (await import(join(root, 'src', module))) as object;
    missing.push(...names.filter((name) => !(name in exported)).map((name) => `${file}: ${name} of ${module}`));
  }
  expect(missing).toEqual([]);
});
