/** This tree as a commit of its own, whatever state it is in, with clones of it that are as good as newly installed. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from './program.js';

/** What git ignores, and git itself: a clone has none of it. */
const NOT_COPIED = /(?:^|\/)(?:\.git|\.cdp|node_modules|dist|coverage|__pycache__)(?:\/|$)|\.(?:wasm|tgz|env)$/;

/** Nobody's settings: the hash of the commit follows from the tree alone. */
const ENVIRONMENT = {
  PATH: process.env.PATH,
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'test',
  GIT_AUTHOR_EMAIL: 'test@example.com',
  GIT_COMMITTER_NAME: 'test',
  GIT_COMMITTER_EMAIL: 'test@example.com',
};

/** @returns the output @throws if git fails */
export async function git(folder: string, date: string, ...args: string[]): Promise<string> {
  const env = { ...ENVIRONMENT, GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date };
  const { stdout } = await promisify(execFile)('git', args, { cwd: folder, env, maxBuffer: 64 * 1024 * 1024 });
  return stdout.trim();
}

/** Copies this tree into a folder that does not exist, without what git ignores. */
export const copyTree = (folder: string): Promise<void> =>
  cp(projectRoot, folder, {
    recursive: true,
    filter: (path) => !NOT_COPIED.test(relative(projectRoot, path)),
  });

/** Links to the packages of this tree, but not to what its builds remember of each other. */
export async function linkModules(folder: string): Promise<void> {
  await mkdir(join(folder, 'node_modules'));
  for (const name of await readdir(join(projectRoot, 'node_modules'))) {
    if (name !== '.cache') await symlink(join(projectRoot, 'node_modules', name), join(folder, 'node_modules', name));
  }
}
