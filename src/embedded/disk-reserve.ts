/** Finds the project that fills the disk, while the control database can still write. */
import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../files.js';

interface Candidate {
  readonly id: string;
  readonly folders: readonly string[];
}

interface Growth {
  readonly id: string;
  /** Growth since free space fell below twice the reserve, or since the last one was returned. */
  readonly bytes: number;
}

export class DiskReserve {
  /** Bytes of each candidate at that time. */
  private readonly before = new Map<string, number>();

  /** @param reserve in bytes */
  constructor(
    private readonly folder: string,
    private readonly reserve: number,
  ) {}

  /**
   * Measuring begins at twice the reserve, so that the growth of each candidate is known when the reserve is reached.
   * @returns the candidate that has grown most; null if the reserve is still free, or none has grown
   */
  async greatestGrowth(candidates: readonly Candidate[]): Promise<Growth | null> {
    const { bavail, bsize } = await statfs(this.folder);
    const free = bavail * bsize;
    if (free >= 2 * this.reserve) {
      this.before.clear();
      return null;
    }
    let greatest: Growth | null = null;
    const now = new Map<string, number>();
    for (const { id, folders } of candidates) {
      let bytes = 0;
      for (const folder of folders) bytes += await bytesIn(folder);
      now.set(id, bytes);
      const before = this.before.get(id);
      if (before === undefined) this.before.set(id, bytes);
      const growth = bytes - (before ?? bytes);
      if (growth > (greatest?.bytes ?? 0)) greatest = { id, bytes: growth };
    }
    if (free >= this.reserve || greatest === null) return null;
    // The others are not to blame for what has filled the disk until now.
    for (const [id, bytes] of now) this.before.set(id, bytes);
    return greatest;
  }
}

/** The size on disk of a folder and everything in it, in bytes. */
export async function bytesIn(folder: string): Promise<number> {
  let bytes = 0;
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    return [];
  });
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += await bytesIn(path);
    else bytes += ((await lstat(path).catch(() => null))?.blocks ?? 0) * 512;
  }
  return bytes;
}
