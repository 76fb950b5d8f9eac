/** What a restore reads: a backup file, or a backup folder with the same members. */
import type { Readable } from 'node:stream';
import type { Control, Manifest } from './manifest.js';

export interface BackupSource {
  readonly path: string;
  readonly manifest: Manifest;
  readonly control: Control;
  has(name: string): boolean;
  namesBelow(folder: string): string[];
  /** @throws BadBackup if there is no such member */
  read(name: string): Readable;
  content(name: string): Promise<Buffer>;
  /** @throws BadBackup if the member is missing, or its checksum is wrong */
  verify(name: string): Promise<void>;
  /** Everything that is wrong with it, for people. */
  faults(signal: AbortSignal): AsyncIterable<string>;
  /** The folder of the archived write-ahead log of a server; null: the backup has none. */
  archiveOf(serverId: string): string | null;
}
