/**
 * Which libxml2 the embedded Postgres runs with. The package bundles 2.9.4, which crashes on deeply nested XPath; the
 * system's own is used in its place if it is newer. Linux alone.
 */
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';

const NAME = 'libxml2.so.2';

/** Where distributions keep it: Debian and Ubuntu, Fedora and SUSE, Arch. Libxml2 2.14 has another name and does not fit. */
const FOLDERS = [`/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`, '/usr/lib64', '/usr/lib'];

/** The first that bounds the recursion of XPath. */
export const BOUNDED = '2.9.11';

/**
 * @param native folder of the programs' package
 * @returns variables for the environment of Postgres; null if the system has no newer one. `LD_PRELOAD` replaces this
 *   library alone, by its SONAME (ld.so(8)); the package's RUNPATH goes on finding the others.
 */
export async function newerLibxml(
  native: string,
  folders: readonly string[] = FOLDERS,
): Promise<{ LD_PRELOAD: string } | null> {
  if (process.platform !== 'linux') return null;
  const bundled = await versionOf(join(native, 'lib', NAME));
  for (const folder of folders) {
    const path = await realpath(join(folder, NAME)).catch(() => null);
    const version = path === null ? null : await versionOf(path);
    if (path !== null && version !== null && isOlder(bundled ?? '0', version)) return { LD_PRELOAD: path };
  }
  return null;
}

/** @returns the version that a process has loaded, and from where; null if that cannot be told */
export async function loadedLibxml(pid: number): Promise<{ version: string; path: string } | null> {
  const maps = await readFile(`/proc/${pid}/maps`, 'utf8').catch(() => '');
  const path = /\S*\/libxml2\.so\.2\S*$/m.exec(maps)?.[0];
  const version = path === undefined ? null : await versionOf(path);
  return path === undefined || version === null ? null : { version, path };
}

/** By the name of the file, `libxml2.so.2.9.14`, else by `xmlParserVersion` in it, `20904`. */
async function versionOf(path: string): Promise<string | null> {
  const [, named] = /\.so\.(\d+\.\d+\.\d+)$/.exec(path) ?? [];
  if (named !== undefined) return named;
  const content = await readFile(path, 'latin1').catch(() => '');
  const [, major, minor, patch] = /(?<!\d)(2)(\d\d)(\d\d)\0/.exec(content) ?? [];
  return major === undefined ? null : [major, minor, patch].map(Number).join('.');
}

/** Of versions of numbers and dots. */
export function isOlder(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) < 0;
}
