/** When schedules run: cron patterns through changes of daylight saving, intervals, and how many times have passed. */
import { describe, expect, it } from 'vitest';
import { type Timing, timesOf } from '../../../src/engine/schedules/times.js';

const timesFrom = (timing: Partial<Timing>, from: string, count: number): string[] => {
  const times = timesOf({ cron: null, every: null, timeZone: 'Europe/Berlin', ...timing });
  let at = new Date(from);
  return Array.from({ length: count }, () => (at = times.next(at)).toISOString().slice(0, 16));
};

describe('a cron pattern in a zone with daylight saving', () => {
  it('keeps the hour of the clock on the wall', () => {
    expect(timesFrom({ cron: '0 9 * * *' }, '2026-03-28T00:00:00Z', 3)).toEqual([
      '2026-03-28T08:00',
      '2026-03-29T07:00',
      '2026-03-30T07:00',
    ]);
  });

  it('runs at the end of the gap if its time is in it', () => {
    // On March 29, 2:00 is followed by 3:00, which is 1:00 UTC.
    expect(timesFrom({ cron: '30 2 * * *' }, '2026-03-28T00:00:00Z', 3)).toEqual([
      '2026-03-28T01:30',
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ]);
    expect(timesFrom({ cron: '30 2 * * *', timeZone: 'America/New_York' }, '2026-03-08T00:30:00Z', 2)).toEqual([
      '2026-03-08T07:00',
      '2026-03-09T06:30',
    ]);
  });

  it('runs once if its time comes twice, the first time', () => {
    // On October 25, 3:00 is followed by 2:00.
    expect(timesFrom({ cron: '30 2 * * *' }, '2026-10-24T12:00:00Z', 2)).toEqual([
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ]);
  });

  it('loses and repeats none of the times of an hour', () => {
    const hours = timesFrom({ cron: '0 * * * *' }, '2026-10-24T23:30:00Z', 4);
    expect(hours).toEqual(['2026-10-25T00:00', '2026-10-25T01:00', '2026-10-25T02:00', '2026-10-25T03:00']);
    expect(timesFrom({ cron: '0 * * * *' }, '2026-03-28T23:30:00Z', 3)).toEqual([
      '2026-03-29T00:00',
      '2026-03-29T01:00',
      '2026-03-29T02:00',
    ]);
  });
});

describe('what has passed', () => {
  const passed = (timing: Partial<Timing>, due: string, now: string) => {
    const { count, next } = timesOf({ cron: null, every: null, timeZone: 'UTC', ...timing }).passed(
      new Date(due),
      new Date(now),
    );
    return [count, next.toISOString()];
  };

  it('is counted, and the next time is the first after now', () => {
    expect(passed({ cron: '0 3 * * *' }, '2026-01-01T03:00:00Z', '2026-01-01T03:00:00Z')).toEqual([
      0,
      '2026-01-02T03:00:00.000Z',
    ]);
    expect(passed({ cron: '0 3 * * *' }, '2026-01-01T03:00:00Z', '2026-01-04T02:00:00Z')).toEqual([
      2,
      '2026-01-04T03:00:00.000Z',
    ]);
    expect(passed({ every: '15m' }, '2026-01-01T00:00:00Z', '2026-01-01T01:00:01Z')).toEqual([
      4,
      '2026-01-01T01:15:00.000Z',
    ]);
  });

  it('is counted only up to 500 times of a pattern', () => {
    expect(passed({ cron: '* * * * *' }, '2026-01-01T00:00:00Z', '2026-03-01T00:00:30Z')).toEqual([
      500,
      '2026-03-01T00:01:00.000Z',
    ]);
  });
});

it.each(['99 * * * *', '', '* * * * * *', '0 0 30 2 *', '2026-01-01T00:00:00', '@reboot', '* * * *'])(
  'the pattern "%s" is refused',
  (cron) => {
    expect(() => timesOf({ cron, every: null, timeZone: 'UTC' })).toThrow('no pattern of times');
  },
);

it.each(['9s', '367d', '1.5h', '0m', '15', '1w', '-1m', ' 1m'])('the interval "%s" is refused', (every) => {
  expect(() => timesOf({ cron: null, every, timeZone: 'UTC' })).toThrow('from 10s to 366d');
});
