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
export const addressAt = (urlReference: string): ServerAddress => urlAt(urlReference).address;

/** The URL, with the password, and the address that it names. @throws Error like {@link addressAt} */
export function urlAt(urlReference: string): { url: string; address: ServerAddress } {
  const at = urlReference.indexOf(':') + 1;
  const place = urlReference.slice(at);
  const url = urlReference.startsWith('env:') ? process.env[place] : urlIn(place);
  if (url === undefined) throw new Error(`the environment of the service has no variable ${place}`);
  if (url === '') throw new Error(`${urlReference} is empty`);
  return { url, address: addressOfUrl(url, urlReference) };
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
    return urlAt(urlReference).url !== known;
  } catch {
    return false;
  }
}
