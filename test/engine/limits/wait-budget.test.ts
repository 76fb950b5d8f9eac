/** How long a request may still wait (engine/limits/wait-budget.ts). */
import { afterEach, expect, it, vi } from 'vitest';
import { WaitBudget } from '../../../src/engine/limits/wait-budget.js';

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
