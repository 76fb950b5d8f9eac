/** How long a request may still wait (db/wait-budget.ts). */
import { afterEach, expect, it, vi } from 'vitest';
import { untilRunning } from '../../src/db/database-access.js';
import { WaitBudget } from '../../src/db/wait-budget.js';
import type { PostgresServer } from '../../src/tenancy/postgres-server.js';

afterEach(() => vi.restoreAllMocks());

it('counts waits at the same time once, and nothing between waits', () => {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const budget = new WaitBudget(100);
  const outer = budget.start();
  now = 10;
  const inner = budget.start();
  expect(budget.ms).toBe(90);
  now = 30;
  inner();
  expect(budget.ms).toBe(70);
  outer();
  now = 1_000;
  expect(budget.ms).toBe(70);
  budget.start();
  now = 1_200;
  expect(budget.ms).toBe(0);
});

it('leaves no timer once the server that was waited for runs', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  await untilRunning({} as PostgresServer, Promise.resolve(), new WaitBudget(5_000));
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});
