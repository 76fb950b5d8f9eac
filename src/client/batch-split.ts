/** Divides a refused batch into the bad records and those to send again. */
import type { ErrorCode, ErrorDetail } from '../contract/errors.js';
import type { CdpError, CdpErrorCode } from './error.js';

/** Errors that a record can cause without being named. */
export const CAUSED_BY_A_RECORD: readonly CdpErrorCode[] = [
  'unique_violation',
  'constraint_violation',
  'row_too_large',
  'sql_error',
];

export interface BatchSplit {
  /** The bad records, by their 0-based position in the batch. */
  refused: Map<number, ErrorDetail[]>;
  /** The batches to send instead, as positions in this one. */
  resend: number[][];
}

/**
 * @param size number of records in the batch
 * @param more other codes that a record can cause
 * @returns undefined if no record caused the error
 */
export function splitRefusedBatch(
  error: CdpError,
  size: number,
  more: readonly CdpErrorCode[] = [],
): BatchSplit | undefined {
  const all = Array.from({ length: size }, (_, i) => i);
  const refused = new Map<number, ErrorDetail[]>();
  for (const place of error.errors) {
    if (place.record !== undefined) refused.set(place.record, [...(refused.get(place.record) ?? []), place]);
  }
  if (refused.size > 0) {
    const good = all.filter((i) => !refused.has(i));
    return { refused, resend: good.length === 0 ? [] : [good] };
  }
  if (![...CAUSED_BY_A_RECORD, ...more].includes(error.code)) return undefined;
  if (size === 1) {
    refused.set(0, [{ record: 0, error: error.code as ErrorCode, message: error.message }]);
    return { refused, resend: [] };
  }
  // The error names no record, so bisect.
  const middle = Math.ceil(size / 2);
  return { refused, resend: [all.slice(0, middle), all.slice(middle)] };
}
