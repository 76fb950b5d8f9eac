/** Refusals go out at once as long as they are few, and later, but soon, where they are many. */
import { expect, it } from 'vitest';
import { RefusalPace } from '../../src/http/gate/refusal-pace.js';

it('sends a few at once', () => {
  const pace = new RefusalPace();
  for (let n = 0; n < 10; n++) expect(pace.wait(performance.now())).toBeUndefined();
});

it('holds the others, in their order, and none for ever', async () => {
  const pace = new RefusalPace();
  const order: number[] = [];
  const waits = Array.from({ length: 5_000 }, (_, n) => pace.wait(performance.now())?.then(() => order.push(n)));
  const held = waits.filter((wait) => wait !== undefined);
  expect(held.length).toBeGreaterThan(4_000);
  await Promise.all(held);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  expect(order).toHaveLength(held.length);
  expect(pace.wait(performance.now())).toBeUndefined();
});

it('does not hold who has waited for a place already', () => {
  const pace = new RefusalPace();
  for (let n = 0; n < 5_000; n++) void pace.wait(performance.now());
  expect(pace.wait(performance.now() - 1_000)).toBeUndefined();
});
