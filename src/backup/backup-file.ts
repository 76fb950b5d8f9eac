/** The file of a backup, checked as a whole before anything of it is restored. */
import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import {
  type Control,
  CONTROL,
  MANIFEST,
  type Manifest,
  parseControl,
  parseManifest,
  parseSums,
  SUMS,
} from './manifest.js';
import { BadBackup, type Member, readMember, readMembers } from './tar.js';

export class BackupFile {
  private constructor(
    readonly path: string,
    private readonly members: ReadonlyMap<string, Member>,
    private readonly sums: ReadonlyMap<string, string>,
    readonly manifest: Manifest,
    readonly control: Control,
  ) {}

  /** Reads all headers and the small members. @throws Error naming the file */
  static async open(path: string): Promise<BackupFile> {
    const handle = await open(path, 'r');
    try {
      const members = await readMembers(handle);
      const sums = parseSums(await contentOf(path, members, SUMS));
      const verified = async (name: string): Promise<Buffer> => {
        const content = await contentOf(path, members, name);
        requireSum(sums, name, createHash('sha256').update(content));
        return content;
      };
      const manifest = parseManifest(await verified(MANIFEST));
      return new BackupFile(path, members, sums, manifest, parseControl(await verified(CONTROL)));
    } catch (error) {
      throw error instanceof BadBackup ? new Error(`${path} cannot be restored. ${error.message}`) : error;
    } finally {
      await handle.close();
    }
  }

  namesBelow(folder: string): string[] {
    return [...this.members.keys()].filter((name) => name.startsWith(folder));
  }

  /** @throws BadBackup */
  read(name: string): Readable {
    return readFrom(this.path, this.members, name);
  }

  content(name: string): Promise<Buffer> {
    return contentOf(this.path, this.members, name);
  }

  /** @throws BadBackup if a member's content is not what was written */
  async verify(name: string): Promise<void> {
    const hash = createHash('sha256');
    for await (const part of this.read(name)) hash.update(part as Buffer);
    requireSum(this.sums, name, hash);
  }
}

function readFrom(path: string, members: ReadonlyMap<string, Member>, name: string): Readable {
  const member = members.get(name);
  if (member === undefined) throw new BadBackup(`It has no ${name}`);
  return readMember(path, member);
}

const contentOf = async (path: string, members: ReadonlyMap<string, Member>, name: string): Promise<Buffer> =>
  Buffer.concat(await readFrom(path, members, name).toArray());

function requireSum(sums: ReadonlyMap<string, string>, name: string, hash: Hash): void {
  if (hash.digest('hex') !== sums.get(name)) throw new BadBackup(`It is damaged: the checksum of ${name} is wrong`);
}
