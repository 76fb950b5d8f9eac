/** What the log says of a database or a provider that is away: once that it went and why, and not each time. */
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Outage } from '../../src/http/observability/outage.js';

beforeEach(() => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => void vi.useRealTimers());

it.each(['database', 'identity provider'] as const)(
  'tells an outage of a %s once, and its end with the requests that it cost',
  (what) => {
    const lines: Record<string, unknown>[] = [];
    const outage = new Outage(
      pino({ base: null }, { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
      what,
    );
    for (let n = 0; n < 1_000; n++) {
      outage.refused({ request_id: `request-${n}` });
      vi.advanceTimersByTime(10);
    }
    expect(lines).toMatchObject([{ level: 40, msg: `${what} unavailable`, request_id: 'request-0' }]);
    vi.advanceTimersByTime(10_000);
    expect(lines.slice(1)).toMatchObject([{ level: 30, msg: `${what} available again`, refused: 1_000 }]);
    outage.refused({ request_id: 'another' });
    expect(lines.slice(2)).toMatchObject([{ msg: `${what} unavailable`, request_id: 'another' }]);
  },
);
