/** What the log says if a database or an identity provider is unavailable: that it is and why, once. */
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { EngineError } from '../../../src/contract/errors.js';
import { createListener } from '../../../src/http/listener.js';
import { Outage } from '../../../src/http/observability/outage.js';
import { ErrorExit } from '../../../src/http/response/error-exit.js';
import { projectMovingError } from '../../../src/tenancy/postgres-errors.js';
import { call, expectFailure } from '../../support/service.js';

beforeEach(() => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => void vi.useRealTimers());

it('reports no outage if a project moves; gives the message of an error without a cause as the reason', async () => {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
  const app = createListener(
    { requestTimeoutMs: 30_000, streamStallMs: 30_000, trustProxy: null },
    new ErrorExit(logger),
  );
  app.get('/moves', () => Promise.reject(projectMovingError()));
  app.get('/stops', () => Promise.reject(new EngineError('database_unavailable', 'The service is stopping')));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  expectFailure(await call(url, 'GET', '/moves'), 503, 'database_unavailable');
  expectFailure(await call(url, 'GET', '/stops'), 503, 'database_unavailable');
  await app.close();
  expect(lines).toMatchObject([{ msg: 'database unavailable', cause: 'The service is stopping' }]);
});

it.each(['database', 'identity provider'] as const)(
  'reports an outage of a %s once, and its end with the number of failed requests',
  (what) => {
    const lines: Record<string, unknown>[] = [];
    const outage = new Outage(
      pino({ base: null }, { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
      what,
    );
    for (let n = 0; n < 1_000; n++) {
      outage.noteFailure({ request_id: `request-${n}` });
      vi.advanceTimersByTime(10);
    }
    expect(lines).toMatchObject([{ level: 40, msg: `${what} unavailable`, request_id: 'request-0' }]);
    vi.advanceTimersByTime(10_000);
    expect(lines.slice(1)).toMatchObject([{ level: 30, msg: `${what} available again`, refused: 1_000 }]);
    outage.noteFailure({ request_id: 'another' });
    expect(lines.slice(2)).toMatchObject([{ msg: `${what} unavailable`, request_id: 'another' }]);
  },
);
