/** The checksums of a backup's members, in the format of `sha256sum`. */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { BadBackup } from './tar.js';

export const formatSums = (sums: ReadonlyMap<string, string>): Buffer =>
  Buffer.from([...sums].map(([name, sha256]) => `${sha256}  ${name}\n`).join(''));

/** @throws BadBackup */
export function parseSums(bytes: Buffer): Map<string, string> {
  const sums = new Map<string, string>();
  for (const line of bytes.toString().split('\n').slice(0, -1)) {
    const [, sha256, name] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? [];
    if (sha256 === undefined || name === undefined) throw new BadBackup('It is damaged');
    sums.set(name, sha256);
  }
  return sums;
}

/** @throws BadBackup if the content is not that of the checksum; the error of the stream */
export async function verifySum(content: Readable, name: string, sums: ReadonlyMap<string, string>): Promise<void> {
  const hash = createHash('sha256');
  for await (const part of content) hash.update(part as Buffer);
  if (hash.digest('hex') !== sums.get(name)) throw new BadBackup(`It is damaged: the checksum of ${name} is wrong`);
}

export const bytesOf = async (content: Readable): Promise<Buffer> => Buffer.concat(await content.toArray());
