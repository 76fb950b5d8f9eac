/** Places in the write-ahead log and the files that hold them (Postgres manual 28.6). */

/** `16/B374D848`, as Postgres writes a place in the log, as a number. @throws Error where it is none */
export function parseLsn(text: string): bigint {
  const [, high, low] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/.exec(text) ?? [];
  if (high === undefined || low === undefined) throw new Error(`"${text}" is no place in the write-ahead log`);
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

const hex = (value: bigint): string => value.toString(16).toUpperCase();

export const formatLsn = (lsn: bigint): string => `${hex(lsn >> 32n)}/${hex(lsn & 0xffff_ffffn)}`;

/** Number of the segment that holds the byte. */
export const segmentOf = (lsn: bigint, segmentBytes: number): bigint => lsn / BigInt(segmentBytes);

/** The name of a segment's file: timeline, and its number in two parts. */
export function segmentName(timeline: number, segment: bigint, segmentBytes: number): string {
  const each = 0x1_0000_0000n / BigInt(segmentBytes);
  return [BigInt(timeline), segment / each, segment % each].map((part) => hex(part).padStart(8, '0')).join('');
}

export const IS_TIMELINE_HISTORY = /^[0-9A-F]{8}\.history$/;
