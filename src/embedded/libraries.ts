/** The libraries that a running server has loaded, from its memory maps (proc(5)). Linux only. */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { readProc } from './proc.js';

/** A line of a mapping with code: its file, and whether another one has the name since. */
const CODE = /^\S+ r-xp \S+ \S+ \d+ +(\/.*?)( \(deleted\))?$/gm;

const codeOf = async (pid: number): Promise<{ path: string; isReplaced: boolean }[]> =>
  Array.from((await readProc(`${pid}/maps`)).matchAll(CODE), ([, path = '', deleted]) => {
    return { path, isReplaced: deleted !== undefined };
  });

/** The programs and libraries of a process that have been replaced since it loaded them, as by an update. */
export async function replacedFiles(pid: number): Promise<string[]> {
  const replaced = (await codeOf(pid)).filter(({ isReplaced }) => isReplaced);
  return [...new Set(replaced.map(({ path }) => basename(path)))];
}

/** OpenSSL and ICU of a process, such as `OpenSSL 3.0.17`, as far as its files say. */
export async function loadedLibraries(pid: number): Promise<string[]> {
  const paths = (await codeOf(pid)).map(({ path }) => path);
  const crypto = paths.find((path) => basename(path).startsWith('libcrypto.so'));
  // A file that cannot be read says nothing.
  const content = crypto === undefined ? '' : await readFile(crypto, 'latin1').catch(() => '');
  const openssl = /OpenSSL \d+\.\d+\.\d+[a-z]*(?= +\d+ \w{3} \d{4})/.exec(content)?.[0];
  // Not libicuuc, of which a library of the system may load another version.
  const icu = paths
    .map((path) => /\/libicui18n\.so\.([\d.]+)$/.exec(path)?.[1])
    .find((version) => version !== undefined);
  return [...(openssl === undefined ? [] : [openssl]), ...(icu === undefined ? [] : [`ICU ${icu}`])];
}
