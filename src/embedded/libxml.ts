/**
 * Chooses the libxml2 of the embedded Postgres. The package bundles 2.9.4, which crashes on deeply nested XPath; a
 * newer version of the system replaces it. Linux only.
 */
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { isOlder } from '../version.js';
import { readProc } from './proc.js';

const NAME = 'libxml2.so.2';

/** Debian and Ubuntu; Fedora and SUSE; Arch. libxml2 2.14 has another file name and is not compatible. */
const FOLDERS = [`/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`, '/usr/lib64', '/usr/lib'];

/** The first version that limits the recursion of XPath. */
export const BOUNDED = '2.9.11';

/**
 * @param native folder of the programs' package
 * @returns environment variables that replace this one library (ld.so(8)); null if the system has no newer version
 */
export async function newerLibxml(
  native: string,
  folders: readonly string[] = FOLDERS,
): Promise<{ LD_PRELOAD: string } | null> {
  if (process.platform !== 'linux') return null;
  const bundled = await versionOf(join(native, 'lib', NAME));
  for (const folder of folders) {
    // The system has no such library here.
    const path = await realpath(join(folder, NAME)).catch(() => null);
    const version = path === null ? null : await versionOf(path);
    if (path !== null && version !== null && isOlder(bundled ?? '0', version)) return { LD_PRELOAD: path };
  }
  return null;
}

/** The version and the file that a process has loaded; null if unknown. */
export async function loadedLibxml(pid: number): Promise<{ version: string; path: string } | null> {
  const path = /\S*\/libxml2\.so\.2\S*$/m.exec(await readProc(`${pid}/maps`))?.[0];
  const version = path === undefined ? null : await versionOf(path);
  return path === undefined || version === null ? null : { version, path };
}

/** Reads the version from the file name, `libxml2.so.2.9.14`, or from `xmlParserVersion` in the file, `20904`. */
async function versionOf(path: string): Promise<string | null> {
  const [, version] = /\.so\.(\d+\.\d+\.\d+)$/.exec(path) ?? [];
  if (version !== undefined) return version;
  // Without a version it is not used.
  const content = await readFile(path, 'latin1').catch(() => '');
  const [, major, minor, patch] = /(?<!\d)(2)(\d\d)(\d\d)\0/.exec(content) ?? [];
  return major === undefined ? null : [major, minor, patch].map(Number).join('.');
}
