/** Positions of values on an axis, and its ticks. */
import { nice, ticks as numberTicks } from 'd3-array';
import { utcTickInterval, utcTicks } from 'd3-time';

export interface Axis {
  /** Pixels from the start of the axis. */
  readonly at: (value: number) => number;
  readonly ticks: readonly { readonly value: number; readonly label: string }[];
}

/** An axis from the lowest to the highest value, extended to round numbers if `isRound`. */
export function numberAxis(
  [low, high]: readonly [number, number],
  pixels: number,
  room: number,
  isRound: boolean,
): Axis {
  const [from, to] = low < high ? [low, high] : around(low);
  const wanted = Math.max(2, Math.floor(pixels / room));
  const [start, end] = isRound ? nice(from, to, wanted) : [from, to];
  const at = linear(start, end, pixels);
  return { at, ticks: numberTicks(start, end, wanted).map((value) => ({ value, label: numberLabel(value) })) };
}

/** Room on both sides of a single value. */
const around = (value: number): [number, number] => [
  value - (Math.abs(value) || 1) / 2,
  value + (Math.abs(value) || 1) / 2,
];

const linear =
  (from: number, to: number, pixels: number) =>
  (value: number): number =>
    ((value - from) / (to - from)) * pixels;

const plain = new Intl.NumberFormat('en', { maximumSignificantDigits: 12 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 6 });
const scientific = new Intl.NumberFormat('en', { notation: 'scientific', maximumSignificantDigits: 6 });

export function numberLabel(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-4 || magnitude >= 1e15)) return scientific.format(value);
  return (magnitude >= 1e6 ? compact : plain).format(value);
}

const DAY = 86_400_000;

export function timeAxis([low, high]: readonly [number, number], pixels: number, room: number): Axis {
  const [from, to] = low < high ? [low, high] : [low - DAY / 2, high + DAY / 2];
  const wanted = Math.max(2, Math.floor(pixels / room));
  const interval = utcTickInterval(new Date(from), new Date(to), wanted);
  const first = interval?.floor(new Date(from));
  const step = first === undefined ? 1 : Number(interval?.offset(first, 1)) - Number(first);
  const ticks = utcTicks(new Date(from), new Date(to), wanted).map((date) => ({
    value: Number(date),
    label: timeLabel(date, step),
  }));
  return { at: linear(from, to, pixels), ticks };
}

const written = (options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat('en', { timeZone: 'UTC', hourCycle: 'h23', ...options });
const year = written({ year: 'numeric' });
const month = written({ month: 'short' });
const day = written({ month: 'short', day: 'numeric' });
const minute = written({ hour: '2-digit', minute: '2-digit' });
const second = written({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
const millisecond = written({ minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });

/** Labels a tick no more finely than the step between ticks; where a larger unit begins, shows that unit. */
function timeLabel(date: Date, step: number): string {
  const time = Number(date);
  if (step >= 300 * DAY || (step >= 28 * DAY && date.getUTCMonth() === 0)) return year.format(date);
  if (step >= 28 * DAY) return month.format(date);
  if (step >= DAY || time % DAY === 0) return day.format(date);
  if (step >= 60_000 || time % 60_000 === 0) return minute.format(date);
  return (step >= 1_000 ? second : millisecond).format(date);
}
