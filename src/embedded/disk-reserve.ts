/** Watches the free space of the disk, and finds the project that fills it, while the control database can still write. */
import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { withFolderBelow } from '../files.js';

interface Candidate {
  readonly id: string;
  readonly folders: readonly string[];
}

interface ServerGrowth {
  readonly id: string;
  /** Growth since half of the reserve was free, or since the last one was returned. */
  readonly bytes: number;
}

/** A project that has grown by less than this share of the reserve is not to blame for a full disk. */
const LEAST_SHARE = 1 / 16;

export class DiskReserve {
  /** Whether less than the reserve was free at the last look. */
  isUsed = false;
  /** Bytes of each candidate when half of the reserve was free, or the last one was returned. */
  private before = new Map<string, number>();

  /**
   * @param reserve in bytes
   * @param unreadable called with a candidate whose folders cannot be read; the others are measured
   */
  constructor(
    private readonly folder: string,
    private readonly reserve: number,
    private readonly unreadable: (id: string, error: unknown) => void,
  ) {}

  /**
   * Measuring begins at twice the reserve, so that the growth of each candidate is known when half of it is used up.
   * @returns the candidate that has grown most; null if half of the reserve is still free, or none has grown noticeably
   */
  async greatestGrowth(candidates: readonly Candidate[]): Promise<ServerGrowth | null> {
    const { bavail, bsize } = await statfs(this.folder);
    const free = bavail * bsize;
    this.isUsed = free < this.reserve;
    if (free >= 2 * this.reserve) {
      this.before.clear();
      return null;
    }
    let greatest: ServerGrowth | null = null;
    const now = await this.measure(candidates);
    if (free >= this.reserve / 2) {
      this.before = now;
      return null;
    }
    for (const [id, bytes] of now) {
      const before = this.before.get(id);
      if (before === undefined) this.before.set(id, bytes);
      const growth = bytes - (before ?? bytes);
      if (growth > (greatest?.bytes ?? 0)) greatest = { id, bytes: growth };
    }
    if (greatest === null || greatest.bytes < this.reserve * LEAST_SHARE) return null;
    // The others are not to blame for what has filled the disk until now.
    this.before = now;
    return greatest;
  }

  private async measure(candidates: readonly Candidate[]): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for (const { id, folders } of candidates) {
      try {
        let bytes = 0;
        for (const folder of folders) bytes += await bytesIn(folder);
        sizes.set(id, bytes);
      } catch (error) {
        this.unreadable(id, error);
      }
    }
    return sizes;
  }
}

/**
 * The size on disk of a folder and everything in it, in bytes. What cannot be read in it counts as nothing: a server's
 * account could otherwise stop the measuring of its server.
 * @param root a folder that the account which writes in it cannot replace
 * @throws Error if the root itself cannot be read; one that is missing has no bytes
 */
export async function bytesIn(root: string, path = ''): Promise<number> {
  let bytes = 0;
  const sizeOnDisk = withFolderBelow(root, path, async (inside) => {
    const entries = await readdir(inside, { withFileTypes: true });
    const files = entries.filter((entry) => !entry.isDirectory());
    // Removed since the folder was listed, or closed by the account: it counts as nothing.
    const stats = await Promise.all(files.map(({ name }) => lstat(join(inside, name)).catch(() => null)));
    for (const file of stats) bytes += (file?.blocks ?? 0) * 512;
    for (const entry of entries) if (entry.isDirectory()) bytes += await bytesIn(root, join(path, entry.name));
  });
  if (path === '') await sizeOnDisk;
  // See above: it counts as nothing.
  else await sizeOnDisk.catch(() => {});
  return bytes;
}
