/** Folders of sources, and the state that they are in. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { join, relative } from 'node:path';
import { root } from './prepare.mjs';

/** What is remembered between builds. */
export const cache = join(root, 'node_modules', '.cache', 'cdp-data-engine');

export function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files)
    hash
      .update(`${relative(root, file)}\0`)
      .update(fs.readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

export function filesIn(folder) {
  if (!fs.existsSync(folder)) return [];
  return fs
    .readdirSync(folder, { withFileTypes: true })
    .sort(byName)
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesIn(path) : [path];
    });
}

/** A rename, so that a reader sees the whole file; a copy where node_modules is a volume of its own. */
export function move(from, to) {
  try {
    fs.renameSync(from, to);
  } catch (error) {
    if (error.code !== 'EXDEV') throw error;
    fs.copyFileSync(from, to);
  }
}

const byName = (a, b) => (a.name < b.name ? -1 : 1);
