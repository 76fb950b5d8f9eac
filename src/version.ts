/** The version of this program, and the order of versions. */
import { readFileSync } from 'node:fs';

const textOf = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');

/** That of the package, and the first digits of a hash of the sources as build metadata: 0.1.0+1f0a2b3c. */
export const VERSION = `${(JSON.parse(textOf('../package.json')) as { version: string }).version}${build()}`;

/** Empty if the sources run without a build. */
function build(): string {
  try {
    return `+${textOf('build')}`;
  } catch {
    return '';
  }
}

/** Compares by numbers: 2.9.4 is older than 2.9.14. */
export const isOlder = (version: string, than: string): boolean =>
  version.localeCompare(than, 'en', { numeric: true }) < 0;
