/** In which order a session's cancel requests and bytes reach Postgres. */
import { expect, it } from 'vitest';
import { CancelSequencer } from '../../../src/engine/sessions/client-session.js';

it('a statement waits for the requests before it, and requests after it for the statement', async () => {
  const done: string[] = [];
  const requests: (() => void)[] = [];
  const order = new CancelSequencer(
    () => new Promise((resolve) => requests.push(() => (done.push('cancel'), resolve()))),
  );
  order.run(() => done.push('first'));
  expect(done).toEqual(['first']);
  const canceled = [order.cancel()];
  await expect.poll(() => requests.length).toBe(1);
  // Two that wait become one.
  canceled.push(order.cancel(), order.cancel());
  order.run(() => done.push('second'));
  canceled.push(order.cancel());
  order.run(() => done.push('third'));
  for (const n of [0, 1, 2]) {
    await expect.poll(() => requests.length).toBe(n + 1);
    requests[n]?.();
  }
  await Promise.all(canceled);
  await expect.poll(() => order.isIdle).toBe(true);
  expect(done).toEqual(['first', 'cancel', 'cancel', 'second', 'cancel', 'third']);
  order.run(() => done.push('fourth'));
  expect(done.at(-1)).toBe('fourth');
});
