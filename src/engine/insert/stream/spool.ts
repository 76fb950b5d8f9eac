/**
 * Bodies that are kept on disk until they are complete (`?atomic=true`), so that no slow sender holds anything of Postgres. The
 * file loses its name at once: however the process ends, its space is free again.
 */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, constants, openSync, read, unlinkSync, write } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { quotaText } from '../../../contract/disk-size.js';
import { EngineError } from '../../../contract/errors.js';
import { Counts } from '../../../counts.js';
import { hasCode, unique } from '../../../files.js';

const [writeAt, readAt] = [promisify(write), promisify(read)];

/** The free space is looked at each time that so much has been written. */
const LOOK_BYTES = 8 * 1024 * 1024;

const READ_BYTES = 256 * 1024;

/** Whose body it is, and how large those of the project may be together, in bytes; null: as the disk allows. */
interface SpoolOwner {
  readonly id: string;
  readonly quota: number | null;
}

export class Spools {
  /** Bytes by project. */
  private readonly sizes = new Counts();

  /** @param reserve so much of the disk stays free, in bytes */
  constructor(
    private readonly folder: string,
    private readonly reserve: number,
  ) {}

  /** Bytes of all files, by project. */
  get bytes(): number {
    return this.sizes.total;
  }

  /** Close the file at the end. @throws the system's error */
  open(owner: SpoolOwner): Spool {
    const path = join(this.folder, `spool-${unique()}`);
    const { O_CREAT, O_EXCL, O_RDWR } = constants;
    // At once, so that nothing comes between the two.
    const file = openSync(path, O_CREAT | O_EXCL | O_RDWR, 0o600);
    unlinkSync(path);
    return new Spool(file, {
      grow: async (bytes, isLook) => {
        this.sizes.add(owner.id, bytes);
        if (owner.quota !== null && this.sizes.of(owner.id) > owner.quota) throw largerThanQuota(owner.quota);
        if (isLook) await this.requireRoom();
      },
      shrink: (bytes) => this.sizes.add(owner.id, -bytes),
    });
  }

  /** Stays clear of the reserve, below which projects could only be read. @throws EngineError disk_full */
  private async requireRoom(): Promise<void> {
    const { bavail, bsize } = await statfs(this.folder);
    if (bavail * bsize < 2 * this.reserve) throw diskFull();
  }
}

interface SpoolRoom {
  /** @param isLook look at the disk, too */
  grow(bytes: number, isLook: boolean): Promise<void>;
  shrink(bytes: number): void;
}

export class Spool {
  private size = 0;
  private counted = 0;
  private readonly hash: Hash = createHash('sha256');
  private isOpen = true;

  constructor(
    private readonly file: number,
    private readonly room: SpoolRoom,
  ) {}

  get bytes(): number {
    return this.size;
  }

  /** The hash of what has been written, to go on with. */
  get sha256(): Hash {
    return this.hash.copy();
  }

  /** @throws EngineError quota_exceeded, disk_full */
  async add(piece: Buffer): Promise<void> {
    const isLook = Math.floor(this.size / LOOK_BYTES) !== Math.floor((this.size + piece.length) / LOOK_BYTES);
    this.counted += piece.length;
    await this.room.grow(piece.length, isLook || this.size === 0);
    try {
      for (let done = 0; done < piece.length;) {
        const { bytesWritten } = await writeAt(this.file, piece, done, piece.length - done, this.size + done);
        done += bytesWritten;
      }
    } catch (error) {
      throw hasCode(error, 'ENOSPC', 'EDQUOT') ? diskFull(error) : error;
    }
    this.hash.update(piece);
    this.size += piece.length;
  }

  /** What has been written, from its beginning. A piece is overwritten by the next one. */
  read(): Pick<AsyncIterator<Buffer>, 'next'> {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    let at = 0;
    return {
      next: async () => {
        const { bytesRead } = await readAt(this.file, buffer, 0, buffer.length, at);
        at += bytesRead;
        return bytesRead === 0
          ? { done: true, value: undefined }
          : { done: false, value: buffer.subarray(0, bytesRead) };
      },
    };
  }

  /** Frees its space. Call it when nothing reads or writes. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.room.shrink(this.counted);
    closeSync(this.file);
  }
}

const largerThanQuota = (quota: number) =>
  new EngineError(
    'quota_exceeded',
    `Until an atomic stream is complete it is kept on disk, and those of the project are larger than its quota of ${quotaText(quota)}`,
    { hint: 'Send it without `atomic`, or in parts.' },
  );

const diskFull = (cause?: unknown) =>
  new EngineError('disk_full', 'The disk of the service has no room for an atomic stream until it is complete', {
    ...(cause === undefined ? {} : { cause }),
    hint: 'Send it without `atomic`, or in parts.',
  });
