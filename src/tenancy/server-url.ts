/**
 * Where the URL of a server or of a replica is: in a variable of the environment, or in a file. Each instance reads its
 * own.
 */
import { readFileSync, statSync } from 'node:fs';
import { addressOfUrl, type ServerAddress } from '../pg/index.js';

/**
 * The address that this instance has for a server.
 * @param urlReference `env:NAME` or `file:PATH`
 * @throws Error that says what is missing or wrong, never the URL
 */
export const addressAt = (urlReference: string): ServerAddress => addressOfUrl(urlAt(urlReference), urlReference);

/** With the password. @throws Error that says what is missing */
export function urlAt(urlReference: string): string {
  const at = urlReference.indexOf(':') + 1;
  const place = urlReference.slice(at);
  const url = urlReference.startsWith('env:') ? process.env[place] : urlIn(place);
  if (url === undefined) throw new Error(`the environment of the service has no variable ${place}`);
  if (url === '') throw new Error(`${urlReference} is empty`);
  return url;
}

/** More is no URL. */
const MOST_BYTES = 64 * 1024;

/** @throws Error for anything but a small file: the name comes from a request */
function urlIn(file: string): string {
  const stats = statSync(file);
  if (!stats.isFile() || stats.size > MOST_BYTES) throw new Error(`${file} is not a file with a URL`);
  return readFileSync(file, 'utf8').trim();
}

/**
 * A file that cannot be read, or holds no URL, changes nothing: somebody may be writing it.
 * @param known null: there was none
 */
export function hasOtherUrl(known: string | null, urlReference: string): boolean {
  try {
    const url = urlAt(urlReference);
    addressOfUrl(url, urlReference);
    return url !== known;
  } catch {
    return false;
  }
}
