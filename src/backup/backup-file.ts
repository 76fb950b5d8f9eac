/** A backup file. It is verified completely before anything is restored from it. */
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { messageOf } from '../contract/errors.js';
import type { BackupSource } from './backup-source.js';
import {
  type Control,
  CONTROL_MEMBER,
  MANIFEST_MEMBER,
  type Manifest,
  parseControl,
  parseManifest,
  SUMS_MEMBER,
} from './manifest.js';
import { bytesOf, parseSums, verifySum } from './sums.js';
import { BadBackup, type Member, readMember, readMembers } from './tar.js';

export class BackupFile implements BackupSource {
  private constructor(
    readonly path: string,
    private readonly members: Members,
    private readonly sums: ReadonlyMap<string, string>,
    readonly manifest: Manifest,
    readonly control: Control,
  ) {}

  /**
   * Reads all headers and the small members.
   * @throws Error that names the file
   */
  static async open(path: string): Promise<BackupFile> {
    const handle = await open(path, 'r');
    try {
      const members = await readMembers(handle);
      const read = (name: string) => readFrom(path, members, name);
      const sums = parseSums(await bytesOf(read(SUMS_MEMBER)));
      for (const name of [MANIFEST_MEMBER, CONTROL_MEMBER]) await verifySum(read(name), name, sums);
      const manifest = parseManifest(await bytesOf(read(MANIFEST_MEMBER)));
      const control = parseControl(await bytesOf(read(CONTROL_MEMBER)));
      return new BackupFile(path, members, sums, manifest, control);
    } catch (error) {
      throw error instanceof BadBackup ? new Error(`${path} cannot be restored. ${error.message}`) : error;
    } finally {
      await handle.close();
    }
  }

  has(name: string): boolean {
    return this.members.has(name);
  }

  namesBelow(folder: string): string[] {
    return [...this.members.keys()].filter((name) => name.startsWith(folder));
  }

  /** @throws BadBackup */
  read(name: string): Readable {
    return readFrom(this.path, this.members, name);
  }

  async content(name: string): Promise<Buffer> {
    return bytesOf(this.read(name));
  }

  /** @throws BadBackup if the member's checksum is wrong */
  async verify(name: string): Promise<void> {
    return verifySum(this.read(name), name, this.sums);
  }

  async *faults(signal: AbortSignal): AsyncGenerator<string> {
    for (const name of this.sums.keys()) {
      signal.throwIfAborted();
      const fault = await this.verify(name).then(() => null, messageOf);
      if (fault !== null) yield fault;
    }
    for (const name of this.members.keys())
      if (name !== SUMS_MEMBER && !this.sums.has(name)) yield `${name} is not of the backup`;
  }

  archiveOf(): null {
    return null;
  }
}

type Members = ReadonlyMap<string, Member>;

function readFrom(path: string, members: Members, name: string): Readable {
  const member = members.get(name);
  if (member === undefined) throw new BadBackup(`It has no ${name}`);
  return readMember(path, member);
}
