/** Reads the URL of a server or replica from an environment variable or a file. Each instance reads its own. */
import { readFileSync, statSync } from 'node:fs';
import { addressOfUrl, type ServerAddress } from '../pg/index.js';

/**
 * The address of a server, as this instance has it.
 * @param urlReference `env:NAME` or `file:PATH`
 * @throws Error that describes the fault, but never contains the URL
 */
export const addressAt = (urlReference: string): ServerAddress => urlAt(urlReference).address;

/** The URL, with its password, and its address. @throws Error like {@link addressAt} */
export function urlAt(urlReference: string): { url: string; address: ServerAddress } {
  const at = urlReference.indexOf(':') + 1;
  const place = urlReference.slice(at);
  const url = urlReference.startsWith('env:') ? process.env[place] : urlIn(place);
  if (url === undefined) throw new Error(`the environment of the service has no variable ${place}`);
  if (url === '') throw new Error(`${urlReference} is empty`);
  return { url, address: addressOfUrl(url, urlReference) };
}

/** A larger file contains no URL. */
const MAX_BYTES = 64 * 1024;

/** @throws Error for anything but a small file: the name comes from a request */
function urlIn(file: string): string {
  const stats = statSync(file);
  if (!stats.isFile() || stats.size > MAX_BYTES) throw new Error(`${file} is not a file with a URL`);
  return readFileSync(file, 'utf8').trim();
}

/**
 * Whether the URL has changed. False if the file cannot be read or contains no URL: it may be being written.
 * @param url null: there was no URL
 */
export function hasOtherUrl(url: string | null, urlReference: string): boolean {
  try {
    return urlAt(urlReference).url !== url;
  } catch {
    return false;
  }
}
