/** Positions in the write-ahead log, and the segment files that contain them (Postgres manual, WAL Internals). */

/**
 * Parses an LSN as Postgres writes it, such as `16/B374D848`.
 * @throws Error if it is invalid
 */
export function parseLsn(text: string): bigint {
  const [, high, low] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/.exec(text) ?? [];
  if (high === undefined || low === undefined) throw new Error(`"${text}" is not an LSN`);
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

/** The number of the segment that contains the byte. */
export const segmentOf = (lsn: bigint, segmentBytes: number): bigint => lsn / BigInt(segmentBytes);

/** The name of a segment file: the timeline, then the number in two parts. */
export function segmentName(timeline: number, segment: bigint, segmentBytes: number): string {
  const each = 0x1_0000_0000n / BigInt(segmentBytes);
  const parts = [BigInt(timeline), segment / each, segment % each];
  return parts.map((part) => part.toString(16).toUpperCase().padStart(8, '0')).join('');
}
