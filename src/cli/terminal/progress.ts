/** Shows the progress of long work: one changing line on a terminal, a line every ten seconds elsewhere. */
import { firstCells, printable, widthOf } from './text.js';

interface Progress {
  rows: number;
  /** From 0 to 1; null: unknown. */
  share: number | null;
  refused: number;
}

const ON_TERMINAL_MS = 100;
const ELSEWHERE_MS = 10_000;
const BAR = 24;
/** Rates are averages over this time. */
const WINDOW_MS = 10_000;

export class ProgressLine {
  private readonly started = performance.now();
  private readonly isTerminal = process.stderr.isTTY;
  private readonly past: { at: number; rows: number; share: number | null }[] = [];
  private readonly timer: NodeJS.Timeout;

  /**
   * @param current called for each line
   * @param label before each line
   */
  constructor(
    private readonly current: () => Progress,
    private readonly label = '',
  ) {
    this.timer = setInterval(() => this.show(), this.isTerminal ? ON_TERMINAL_MS : ELSEWHERE_MS);
    this.timer.unref();
  }

  get seconds(): number {
    return (performance.now() - this.started) / 1_000;
  }

  /** Clears the line. */
  end(): void {
    clearInterval(this.timer);
    if (this.isTerminal) process.stderr.write('\r\u001b[K');
  }

  show(): void {
    const progress = this.current();
    const now = performance.now();
    this.past.push({ at: now, rows: progress.rows, share: progress.share });
    while ((this.past[0]?.at ?? now) < now - WINDOW_MS) this.past.shift();
    if (!this.isTerminal) return void process.stderr.write(`${this.label}${this.line(progress, true)}\n`);
    const room = (process.stderr.columns || 80) - 1;
    const line = this.label + this.line(progress, true);
    // If there is no room for both, the numbers are more useful than the bar.
    const visibleLine = widthOf(line) <= room ? line : this.label + this.line(progress, false);
    process.stderr.write(`\r${firstCells(printable(visibleLine), room)}\u001b[K`);
  }

  line({ rows, share, refused }: Progress, hasBar: boolean): string {
    const [first, last] = [this.past[0], this.past.at(-1)];
    const seconds = first === undefined || last === undefined ? 0 : (last.at - first.at) / 1_000;
    const rate = seconds > 0 && first !== undefined ? (rows - first.rows) / seconds : rows / this.seconds;
    const speed = seconds > 0 ? ((share ?? 0) - (first?.share ?? 0)) / seconds : 0;
    return [
      ...(share === null ? [] : [`${hasBar ? `${bar(share)} ` : ''}${(share * 100).toFixed(0).padStart(3)}%`]),
      `${grouped(rows)} rows`,
      `${grouped(rate)} rows/s`,
      ...(share === null || speed <= 0 ? [] : [`${duration((1 - share) / speed)} left`]),
      ...(refused === 0 ? [] : [`${grouped(refused)} refused`]),
    ].join('  ');
  }
}

/** The speed, for the end of a result; empty for one row or none. @param seconds that the rows took */
export const speedOf = (rows: number, seconds: number): string =>
  rows > 1 ? `, ${grouped(rows / seconds)} rows/s` : '';

const bar = (share: number): string => {
  const full = Math.round(Math.min(1, share) * BAR);
  return `[${'='.repeat(full)}${' '.repeat(BAR - full)}]`;
};

/** `231,083` */
export const grouped = (value: number): string => Math.round(value).toLocaleString('en');

/** `1 row`, `231,083 rows` */
export const countedRows = (rows: number): string => `${grouped(rows)} ${rows === 1 ? 'row' : 'rows'}`;

const duration = (seconds: number): string => {
  const whole = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(whole / 3_600), Math.floor((whole % 3_600) / 60)];
  const clock = `${String(minutes).padStart(hours > 0 ? 2 : 1, '0')}:${String(whole % 60).padStart(2, '0')}`;
  return hours > 0 ? `${hours}:${clock}` : clock;
};
