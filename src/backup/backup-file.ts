/** A backup file. It is verified completely before anything is restored from it. */
import { createHash } from 'node:crypto';
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
  manifest!: Manifest;
  control!: Control;
  private sums: ReadonlyMap<string, string> = new Map();

  private constructor(
    readonly path: string,
    private readonly members: ReadonlyMap<string, Member>,
  ) {}

  /**
   * Reads all headers and the small members.
   * @throws Error that names the file
   */
  static async open(path: string): Promise<BackupFile> {
    const handle = await open(path, 'r');
    try {
      const file = new BackupFile(path, await readMembers(handle));
      file.sums = parseSums(await file.content(SUMS));
      for (const name of [MANIFEST, CONTROL]) await file.verify(name);
      file.manifest = parseManifest(await file.content(MANIFEST));
      file.control = parseControl(await file.content(CONTROL));
      return file;
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
    const member = this.members.get(name);
    if (member === undefined) throw new BadBackup(`It has no ${name}`);
    return readMember(this.path, member);
  }

  async content(name: string): Promise<Buffer> {
    return Buffer.concat(await this.read(name).toArray());
  }

  /** @throws BadBackup if the member's checksum is wrong */
  async verify(name: string): Promise<void> {
    const hash = createHash('sha256');
    for await (const part of this.read(name)) hash.update(part as Buffer);
    if (hash.digest('hex') !== this.sums.get(name))
      throw new BadBackup(`It is damaged: the checksum of ${name} is wrong`);
  }
}
