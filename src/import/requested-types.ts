/** The types that `--types` accepts: those of the API, and numbers that count from 1970, which become TIMESTAMP. */
import { COLUMN_TYPES, type ColumnType } from '../contract/column-types.js';

/** The number of digits below the second. */
const EPOCHS = { EPOCH_SECONDS: 0, EPOCH_MILLISECONDS: 3, EPOCH_MICROSECONDS: 6 } as const;

export type EpochDigits = (typeof EPOCHS)[keyof typeof EPOCHS];

export interface RequestedType {
  readonly type: ColumnType;
  readonly epoch?: EpochDigits;
}

export const REQUESTED_TYPES: readonly string[] = [...COLUMN_TYPES, ...Object.keys(EPOCHS)];

/** @param name in any case */
export function requestedType(name: string): RequestedType | undefined {
  const upper = name.toUpperCase();
  const type = COLUMN_TYPES.find((known) => known === upper);
  if (type !== undefined) return { type };
  const epoch = Object.hasOwn(EPOCHS, upper) ? EPOCHS[upper as keyof typeof EPOCHS] : undefined;
  return epoch === undefined ? undefined : { type: 'TIMESTAMP', epoch };
}
