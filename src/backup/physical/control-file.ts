/** What `pg_control` says of a data folder: how it was left, and where its log is. `pg_controldata` is not bundled. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readSmallFile } from '../../files.js';

/** Path below the data folder. */
export const CONTROL_FILE = 'global/pg_control';

/** Of those that there are (`DBState` in pg_control.h). */
const STATES = [
  'starting up',
  'shut down',
  'shut down in recovery',
  'shutting down',
  'in crash recovery',
  'in archive recovery',
  'in production',
] as const;

export interface ControlFile {
  readonly state: (typeof STATES)[number];
  /** Of the last checkpoint's record. */
  readonly checkpoint: bigint;
  readonly timeline: number;
  readonly segmentBytes: number;
  /** 0: the pages have no checksums. */
  readonly checksumVersion: number;
  readonly catalogVersion: number;
}

/** Place of the checksum by `pg_control_version`; the other fields have not moved since Postgres 13 (`ControlFileData`). */
const CRC_AT: Readonly<Record<number, number>> = { 1300: 288, 1700: 288, 1800: 292 };

/** @throws Error naming the file where it is damaged, or of a Postgres that this program does not know */
export async function readControlFile(dataFolder: string): Promise<ControlFile> {
  return parse(await readControlBytes(dataFolder));
}

/** All of the file. A running server may be writing it, so it is read again until its checksum fits. */
export async function readControlBytes(dataFolder: string): Promise<Buffer> {
  const path = join(dataFolder, CONTROL_FILE);
  for (let attempt = 1; ; attempt++) {
    const bytes = await readSmallFile(path);
    const version = bytes.length < 12 ? 0 : bytes.readUInt32LE(8);
    const at = CRC_AT[version];
    if (at === undefined) throw new Error(`${path} is of version ${version}, which this program does not know`);
    if (bytes.length > at + 4 && crc32c(bytes.subarray(0, at)) === bytes.readUInt32LE(at)) return bytes;
    if (attempt === 10) throw new Error(`${path} is damaged: its checksum is wrong`);
    await sleep(10);
  }
}

function parse(bytes: Buffer): ControlFile {
  const state = STATES[bytes.readInt32LE(16)];
  if (state === undefined) throw new Error(`${CONTROL_FILE} has a state that this program does not know`);
  return {
    catalogVersion: bytes.readUInt32LE(12),
    state,
    checkpoint: bytes.readBigUInt64LE(32),
    timeline: bytes.readUInt32LE(48),
    segmentBytes: bytes.readUInt32LE(228),
    checksumVersion: bytes.readUInt32LE(252),
  };
}

/** Castagnoli's polynomial, reflected. Node has CRC-32 with another one. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});

function crc32c(bytes: Buffer): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) crc = (TABLE[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffff_ffff) >>> 0;
}
