/** Keeps a reserve of the disk free of projects, so that the control database can always write. */
import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../files.js';

interface Candidate {
  readonly id: string;
  readonly folder: string;
}

interface Growth {
  readonly id: string;
  /** By which it has grown since the disk became short. */
  readonly bytes: number;
}

export class DiskReserve {
  /** Bytes of each folder when the disk was first found to be short. */
  private readonly before = new Map<string, number>();

  /** @param reserve in bytes */
  constructor(
    private readonly folder: string,
    private readonly reserve: number,
  ) {}

  /**
   * Folders are measured from twice the reserve on, so that their growth is known when the reserve is reached.
   * @returns the one that has grown most; null: the reserve is free, or none has grown
   */
  async greatestGrowth(candidates: readonly Candidate[]): Promise<Growth | null> {
    const { bavail, bsize } = await statfs(this.folder);
    const free = bavail * bsize;
    if (free >= 2 * this.reserve) {
      this.before.clear();
      return null;
    }
    let greatest: Growth | null = null;
    for (const { id, folder } of candidates) {
      const bytes = await bytesIn(folder);
      const before = this.before.get(id);
      if (before === undefined) this.before.set(id, bytes);
      const growth = bytes - (before ?? bytes);
      if (growth > (greatest?.bytes ?? 0)) greatest = { id, bytes: growth };
    }
    if (free >= this.reserve || greatest === null) return null;
    this.before.delete(greatest.id);
    return greatest;
  }
}

/** On the disk, of a folder with all below it. */
async function bytesIn(folder: string): Promise<number> {
  let bytes = 0;
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    return [];
  });
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += await bytesIn(path);
    // It may go away while it is measured.
    else bytes += ((await lstat(path).catch(() => null))?.blocks ?? 0) * 512;
  }
  return bytes;
}
