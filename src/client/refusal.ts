/** What the refusal of a batch says about its records: which are bad, and what of the rest is worth sending again. */
import type { ErrorCode, ErrorPlace } from '../contract/errors.js';
import type { CdpError, CdpErrorCode } from './error.js';

/** Refusals that are about records even where none is named. */
const ABOUT_RECORDS: readonly CdpErrorCode[] = [
  'unique_violation',
  'constraint_violation',
  'row_too_large',
  'sql_error',
];

export interface Verdict {
  /** The bad records by their place in the batch, from 0. */
  refused: Map<number, ErrorPlace[]>;
  /** Batches to send in place of this one, as places in it. */
  again: number[][];
}

/**
 * @param size records of the batch
 * @param about codes that are about records beyond those that always are
 * @returns undefined where the refusal is about something else
 */
export function verdictOn(error: CdpError, size: number, about: readonly CdpErrorCode[] = []): Verdict | undefined {
  const refused = new Map<number, ErrorPlace[]>();
  for (const place of error.errors) {
    if (place.record !== undefined) refused.set(place.record, [...(refused.get(place.record) ?? []), place]);
  }
  const all = Array.from({ length: size }, (_, i) => i);
  if (refused.size > 0) {
    const good = all.filter((i) => !refused.has(i));
    return { refused, again: good.length === 0 ? [] : [good] };
  }
  if (!ABOUT_RECORDS.includes(error.code) && !about.includes(error.code)) return undefined;
  if (size === 1) {
    refused.set(0, [{ record: 0, error: error.code as ErrorCode, message: error.message }]);
    return { refused, again: [] };
  }
  // Nobody says which record it is: by halves.
  const middle = Math.ceil(size / 2);
  return { refused, again: [all.slice(0, middle), all.slice(middle)] };
}
