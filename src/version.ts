/** The version of this program, and the order of versions. */
import { readFileSync } from 'node:fs';

const textOf = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');

/**
 * That of the package, and what the build was made from (scripts/build.mjs): `0.1.0 (96bb838e, 2026-11-29)`, the commit
 * and its date. For people; no program compares it.
 */
export const VERSION = `${(JSON.parse(textOf('../package.json')) as { version: string }).version}${build()}`;

/** Empty if the sources run without a build. */
function build(): string {
  try {
    return ` (${textOf('build')})`;
  } catch {
    return '';
  }
}

/** Compares by numbers: 2.9.4 is older than 2.9.14. */
export const isOlder = (version: string, than: string): boolean =>
  version.localeCompare(than, 'en', { numeric: true }) < 0;
