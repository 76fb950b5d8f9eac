/** Sizes on disk as operators write and read them, such as `500MB` or `10GB`. As in Postgres, 1 GB is 1024 MB. */

const MIB = 1024 * 1024;

const UNITS: readonly (readonly [string, number])[] = [
  ['TB', MIB * MIB],
  ['GB', MIB * 1024],
  ['MB', MIB],
];

/** An empty project takes about half of this. With a smaller quota, nothing could ever be written. */
const MIN_QUOTA = 16 * MIB;

/** Keeps sums with a quota within safe integers. */
const MAX_QUOTA = 1024 * MIB * MIB;

/**
 * @returns bytes
 * @throws Error that says what is expected
 */
export function parseQuota(text: string): number {
  const [, digits, unit] = /^(\d{1,7})(MB|GB|TB)$/i.exec(text) ?? [];
  const factor = UNITS.find(([name]) => name === unit?.toUpperCase())?.[1];
  const bytes = factor === undefined ? NaN : Number(digits) * factor;
  if (!(bytes >= MIN_QUOTA && bytes <= MAX_QUOTA)) {
    throw new Error('must be a whole number with MB, GB or TB, such as 10GB; at least 16MB, at most 1024TB');
  }
  return bytes;
}

/** The text that {@link parseQuota} accepts, in the largest unit that keeps it exact. */
export function quotaText(bytes: number): string {
  const [name, factor] = UNITS.find(([, unit]) => bytes % unit === 0) ?? ['MB', MIB];
  return `${bytes / factor}${name}`;
}

/** A measured size for people, such as `10.2 GB`. */
export function roundedSize(bytes: number): string {
  const [name, factor] = UNITS.find(([, unit]) => bytes >= unit) ?? ['MB', MIB];
  return `${(bytes / factor).toFixed(1)} ${name}`;
}
