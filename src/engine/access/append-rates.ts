/**
 * How much a token with limits may send: requests and rows, a second and a day. Each instance counts seconds in memory. Days
 * are counted in the control database, so that they hold across restarts and instances; an instance takes shares of a day in
 * advance, so that few requests need a query. What is left of its share when it ends is lost.
 */
import { LRUCache } from 'lru-cache';
import { EngineError } from '../../contract/errors.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { Caller } from './tokens.js';

type What = 'requests' | 'rows';

/** Maximum number of tokens that are remembered. */
const TOKENS = 10_000;

/** An instance takes this part of a day at a time. */
const SHARE = 1 / 100;

/** What is left of a second's worth, at a time of `performance.now()`. */
interface Second {
  left: number;
  at: number;
}

/** The share of an instance in a day. */
interface Day {
  left: number;
  readonly day: string;
  /** Its end, as a time of `performance.now()`. */
  readonly end: number;
  /** As many and more are not left for anybody. */
  refusedFrom: number;
}

export class AppendRates {
  private readonly seconds = new LRUCache<string, Second>({ max: 2 * TOKENS });
  private readonly days = new LRUCache<string, Day>({ max: 2 * TOKENS });

  constructor(private readonly control: ControlDatabase) {}

  /** Counts a request, or the rows of one, before they are stored. @throws EngineError rate_limited, database_unavailable */
  async count({ id, limits }: Caller, what: What, n: number): Promise<void> {
    if (limits === null || n === 0) return;
    const [perSecond, perDay] =
      what === 'requests'
        ? [limits.requests_per_second, limits.requests_per_day]
        : [limits.rows_per_second, limits.rows_per_day];
    const key = `${id} ${what}`;
    if (perSecond !== null) this.takeOfSecond(key, what, n, perSecond);
    if (perDay !== null) await this.takeOfDay(key, id, what, n, perDay);
  }

  /** More than a second's worth is taken from a full one, and makes the next ones wait. */
  private takeOfSecond(key: string, what: What, n: number, limit: number): void {
    const now = performance.now();
    const before = this.seconds.get(key) ?? { left: limit, at: now };
    const left = Math.min(limit, before.left + ((now - before.at) / 1_000) * limit);
    const needed = Math.min(n, limit);
    if (left < needed) throw tooMany(what, limit, 'second', Math.ceil((needed - left) / limit));
    this.seconds.set(key, { left: left - n, at: now });
  }

  private async takeOfDay(key: string, id: string, what: What, n: number, limit: number): Promise<void> {
    let day = this.days.get(key);
    if (day === undefined || performance.now() >= day.end || (day.left < n && n < day.refusedFrom)) {
      day = await this.takeShare(key, id, what, n, limit);
    }
    if (day.left < n) {
      day.refusedFrom = Math.min(day.refusedFrom, n);
      throw tooMany(what, limit, 'day', Math.max(1, Math.ceil((day.end - performance.now()) / 1_000)));
    }
    day.left -= n;
  }

  /** A share of the day, or just what is needed if no whole share is left, or nothing. */
  private async takeShare(key: string, id: string, what: What, n: number, limit: number): Promise<Day> {
    const share = Math.max(n, Math.ceil(limit * SHARE));
    let answer = await this.control.tokens.takeOfDay(id, what, share, limit);
    if (answer.taken === 0 && share > n) answer = await this.control.tokens.takeOfDay(id, what, n, limit);
    const { taken, day, endsInMs } = answer;
    // Another request may have taken one meanwhile.
    const current = this.days.get(key);
    const known =
      current?.day === day ? current : { left: 0, day, end: performance.now() + endsInMs, refusedFrom: Infinity };
    known.left += taken;
    this.days.set(key, known);
    return known;
  }
}

const tooMany = (what: What, limit: number, time: 'second' | 'day', retryAfter: number) =>
  new EngineError('rate_limited', `The token may send ${limit} ${what} a ${time}`, { retryAfter });
