/**
 * Runs the steps of a Dockerfile without Docker: each stage has a folder for its root, in which its COPY and RUN take place.
 * Left out is what needs root or a Debian of its own: `apt-get`, USER. The base image is this machine.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';

export interface Stage {
  /** Where its `/` is. */
  readonly root: string;
  readonly entrypoint: readonly string[];
  /** Of ENV. */
  readonly environment: Readonly<Record<string, string>>;
}

/** @returns name and arguments of each instruction */
export const instructionsOf = (text: string): [string, string][] =>
  text
    .replace(/^\s*#.*\n/gm, '')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)]);

/**
 * @param context what the Dockerfile copies from
 * @param folder empty, for the roots
 * @returns the last stage
 * @throws if a step fails
 */
export async function runDockerfile(text: string, context: string, folder: string): Promise<Stage> {
  const roots = new Map<string, string>();
  let root = '';
  let at = '/';
  let entrypoint: string[] = [];
  let environment: Record<string, string> = {};
  const within = (path: string) => join(root, resolve(at, path));
  for (const [instruction, args] of instructionsOf(text)) {
    if (instruction === 'FROM') {
      root = join(folder, `stage${roots.size}`);
      roots.set(/ AS (\w+)$/.exec(args)?.[1] ?? '', root);
      [at, entrypoint, environment] = ['/', [], {}];
      for (const present of ['usr/local/bin', 'tmp']) await mkdir(join(root, present), { recursive: true });
    }
    if (instruction === 'WORKDIR') {
      at = args;
      await mkdir(within('.'), { recursive: true });
    }
    if (instruction === 'COPY') {
      const [, from, paths = ''] = /^(?:--from=(\w+) )?(.*)$/.exec(args) ?? [];
      const source = from === undefined ? context : (roots.get(from) ?? '');
      const names = paths.split(' ');
      const to = within(names.pop() ?? '');
      for (const path of names.map((name) => join(source, name))) {
        // Docker copies what is in a folder, not the folder.
        const isFolder = (await stat(path)).isDirectory();
        await cp(path, isFolder ? to : join(to, basename(path)), { recursive: true, verbatimSymlinks: true });
      }
    }
    // npm's cache is the developer's own here.
    if (instruction === 'RUN' && !args.startsWith('apt-get ')) {
      const command = args.replace(' && npm cache clean --force', '').replaceAll(' /', ` ${root}/`);
      const env = { ...process.env, NODE_ENV: '', npm_config_prefer_offline: 'true', ...environment };
      await promisify(execFile)('sh', ['-ec', command], { cwd: within('.'), env, maxBuffer: 64 * 1024 * 1024 });
    }
    if (instruction === 'ENV') {
      for (const pair of args.split(' ')) environment[pair.split('=')[0] ?? ''] = pair.slice(pair.indexOf('=') + 1);
    }
    if (instruction === 'ENTRYPOINT') entrypoint = JSON.parse(args) as string[];
  }
  return { root, entrypoint, environment };
}
