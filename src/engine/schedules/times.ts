/** When a schedule runs: at the times of a cron pattern in a time zone, or at an interval. */
import { Cron } from 'croner';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
const UNITS: Readonly<Record<string, number>> = { s: SECOND_MS, m: 60_000, h: 3_600_000, d: DAY_MS };

/** A shorter interval belongs into a program of its own. */
const MIN_EVERY_MS = 10 * SECOND_MS;
const MAX_EVERY_MS = 366 * DAY_MS;

/** The most times that are counted in one gap: croner takes 0.1 ms for each. */
const MAX_COUNTED = 500;

export interface Timing {
  readonly cron: string | null;
  readonly every: string | null;
  readonly timeZone: string;
}

export interface Times {
  /** The first time after. */
  next(after: Date): Date;
  /**
   * What has passed when a run begins.
   * @param due its time
   * @returns the times after that which have passed, too, at most {@link MAX_COUNTED} of a cron pattern; and the first that has not
   */
  passed(due: Date, now: Date): { readonly count: number; readonly next: Date };
}

/** @throws EngineError invalid_request */
export function timesOf({ cron, every, timeZone }: Timing): Times {
  if (cron !== null && every !== null) throw wrong('Give either "cron" or "every", not both');
  // A wrong zone has an error of its own.
  if (cron !== null) return cronTimes(cron, isTimeZone(timeZone) ? timeZone : 'UTC');
  if (every !== null) return interval(every);
  throw wrong('"cron" or "every" is missing: it says when to run');
}

/** An interval has no time of the day. The default is allowed, since responses have it. @throws EngineError invalid_request */
export function checkTimeZone({ timeZone, every }: Pick<Timing, 'timeZone' | 'every'>): void {
  if (!isTimeZone(timeZone)) {
    throw new EngineError('invalid_request', `"time_zone" is no time zone: ${quoted(timeZone)}`, {
      hint: 'A name of the IANA database, such as Europe/Berlin or UTC.',
    });
  }
  if (every !== null && timeZone !== 'UTC')
    throw wrong('"time_zone" goes with "cron": an interval is the same in every time zone');
}

function isTimeZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }) !== null;
  } catch {
    return false;
  }
}

function interval(every: string): Times {
  const [, number, unit = ''] = /^([1-9]\d{0,8})([smhd])$/.exec(every) ?? [];
  const ms = Number(number) * (UNITS[unit] ?? NaN);
  if (!(ms >= MIN_EVERY_MS && ms <= MAX_EVERY_MS)) {
    throw wrong(`"every" must be a number of s, m, h or d from 10s to 366d, such as 15m; not ${quoted(every)}`);
  }
  return {
    next: (after) => new Date(after.getTime() + ms),
    passed: (due, now) => {
      const count = Math.max(0, Math.floor((now.getTime() - due.getTime()) / ms));
      return { count, next: new Date(due.getTime() + (count + 1) * ms) };
    },
  };
}

/** Without seconds, which no report and no deletion needs. */
const PATTERN = /^(@(yearly|annually|monthly|weekly|daily|hourly)|\S+( +\S+){4})$/i;

function cronTimes(pattern: string, timezone: string): Times {
  const cron = PATTERN.test(pattern) ? parsed(pattern, timezone) : null;
  if (cron === null) {
    throw new EngineError('invalid_request', `"cron" is no pattern of times: ${quoted(pattern)}`, {
      hint: 'Minute, hour, day of the month, month, day of the week: 0 3 * * * is every day at 3.',
    });
  }
  // A pattern whose time has come once comes again: no field is a year.
  const next = (after: Date): Date => cron.nextRun(after) ?? new Date(after.getTime() + MAX_EVERY_MS);
  const passed = (due: Date, now: Date) => {
    let count = 0;
    for (let time = next(due); time <= now && count < MAX_COUNTED; time = next(time)) count++;
    return { count, next: next(due > now ? due : now) };
  };
  return { next, passed };
}

/** @returns null: it is none, or its time never comes */
function parsed(pattern: string, timezone: string): Cron | null {
  try {
    const cron = new Cron(pattern, { paused: true, timezone });
    return cron.nextRun() === null ? null : cron;
  } catch {
    return null;
  }
}

const wrong = (message: string) => new EngineError('invalid_request', message);
