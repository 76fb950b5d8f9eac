/** The package as `npm pack` makes it, installed into an empty folder: its own files, and links to its dependencies. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { newFolder, projectRoot } from './program.js';

const run = promisify(execFile);

interface Lock {
  packages: Record<string, { dev?: boolean }>;
}

/** @returns the folder that holds `node_modules`, and the paths in the package */
export async function installPackage(): Promise<{ folder: string; files: readonly string[] }> {
  const folder = await newFolder();
  const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const { stdout } = await run('npm', pack, { cwd: projectRoot, maxBuffer: 16 * 1024 * 1024 });
  const [packed] = Object.values(JSON.parse(stdout) as Record<string, { filename: string; files: { path: string }[] }>);
  if (packed === undefined) throw new Error('npm packed nothing');
  const modules = join(folder, 'node_modules');
  const own = join(modules, 'cdp-data-engine');
  await mkdir(own, { recursive: true });
  await run('tar', ['-xzf', join(folder, packed.filename), '--strip-components', '1', '-C', own]);
  const { packages } = JSON.parse(await readFile(join(projectRoot, 'package-lock.json'), 'utf8')) as Lock;
  const needed = Object.keys(packages).filter((path) => /^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path));
  for (const path of needed) {
    if (packages[path]?.dev === true || !existsSync(join(projectRoot, path))) continue;
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await symlink(join(projectRoot, path), join(folder, path), 'dir');
  }
  await mkdir(join(modules, '.bin'));
  for (const name of ['cdp', 'cdp-data-engine'])
    await symlink('../cdp-data-engine/dist/cli/bin.js', join(modules, '.bin', name));
  return { folder, files: packed.files.map(({ path }) => path) };
}
