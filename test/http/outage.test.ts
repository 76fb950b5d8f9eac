/** What the log says of a database that is away: once that it went and why, and not each time. */
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Outage } from '../../src/http/watch/outage.js';

beforeEach(() => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => void vi.useRealTimers());

it('tells an outage once, and its end with the number of requests that it cost', () => {
  const lines: Record<string, unknown>[] = [];
  const outage = new Outage(
    pino({ base: null }, { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
  );
  for (let n = 0; n < 1_000; n++) {
    outage.refused({ request_id: `request-${n}` });
    vi.advanceTimersByTime(10);
  }
  expect(lines).toMatchObject([{ level: 40, msg: 'database unavailable', request_id: 'request-0' }]);
  vi.advanceTimersByTime(10_000);
  expect(lines.slice(1)).toMatchObject([{ level: 30, msg: 'database available again', refused: 1_000 }]);
  outage.refused({ request_id: 'another' });
  expect(lines.slice(2)).toMatchObject([{ msg: 'database unavailable', request_id: 'another' }]);
});
