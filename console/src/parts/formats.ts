/** Formats numbers and times for people. */
const whole = new Intl.NumberFormat('en');

export const count = (n: number): string => whole.format(n);

export const counted = (n: number, what: string): string => `${count(n)} ${what}${n === 1 ? '' : 's'}`;

export const duration = (ms: number): string => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);

/** The same, but with two digits below 10 ms, for values measured in microseconds. */
export const exactDuration = (ms: number): string => (ms > 0 && ms < 9.95 ? `${ms.toPrecision(2)} ms` : duration(ms));

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** In steps of 1,024, like Postgres's pg_size_pretty. */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1_024 && unit < UNITS.length - 1; unit++) value /= 1_024;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function ago(at: number, now = Date.now()): string {
  const seconds = Math.round((now - at) / 1_000);
  if (seconds < 60) return 'just now';
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  return new Date(at).toLocaleDateString('en', { day: 'numeric', month: 'short', year: 'numeric' });
}

// Times, in the user's time zone.
const DAY = { day: 'numeric', month: 'short' } as const;
const TIME = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;

export const day = (time: string): string => new Date(time).toLocaleDateString('en', { ...DAY, year: 'numeric' });

export const dayAndTime = (time: string): string => new Date(time).toLocaleString('en', { ...DAY, ...TIME });
