/** The log of the service on a terminal. */
import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { logLine } from '../../src/cli/terminal/readable-log.js';

const streamWith = (hasColors: boolean) =>
  Object.assign(new PassThrough(), {
    isTTY: true,
    getColorDepth: () => (hasColors ? 4 : 1),
  }) as unknown as NodeJS.WriteStream;
const time = '2026-01-31T09:30:00.000Z';
const clock = new Date(time).toTimeString().slice(0, 8);

it.each([
  [
    {
      level: 30,
      msg: 'request',
      method: 'POST',
      route: '/api/cdp/sql',
      status: 200,
      duration_ms: 4.1,
      project: 'shop',
      token: 'x',
    },
    'POST /api/cdp/sql 200 4.1 ms shop',
  ],
  [
    { level: 30, msg: 'request', method: 'GET', route: null, status: 404, duration_ms: 1, error: 'not_found' },
    'GET - 404 1 ms not_found',
  ],
  [{ level: 40, msg: 'slow', project: 'shop', n: 2 }, 'Warning: slow (project: shop, n: 2)'],
  [{ level: 50, msg: 'a\u001b[2Jb' }, 'Error: a\\u{1b}[2Jb'],
])('prints %j as one short line without control characters', (line, shown) => {
  expect(logLine({ time, ...line }, streamWith(false))).toBe(`${clock} ${shown}`);
});

it('uses colors if the terminal has them', () => {
  expect(logLine({ time, level: 50, msg: 'broken' }, streamWith(true))).toBe(
    `\u001b[2m${clock}\u001b[22m \u001b[31mError: broken\u001b[39m`,
  );
});
