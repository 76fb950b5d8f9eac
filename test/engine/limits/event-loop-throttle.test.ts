/** Turns on the event loop that all projects share (engine/limits/event-loop-throttle.ts). */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { EventLoopThrottle } from '../../../src/engine/limits/event-loop-throttle.js';

const MIB = 1024 * 1024;

describe('event-loop throttle', () => {
  it('never delays a project that is alone, whatever it sends', () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('a');
    expect(throttle.pause('a', 10 * MIB)).toBeUndefined();
    expect(throttle.pause('a', 10 * MIB)).toBeUndefined();
  });

  it('lets small chunks pass, but delays a project once their sum is large, while another project is active', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('b');
    throttle.noteRequest('a');
    expect(throttle.pause('a', 100 * 1024)).toBeUndefined();
    expect(throttle.pause('a', 100 * 1024)).toBeUndefined();
    const turn = throttle.pause('a', 100 * 1024);
    expect(turn).toBeInstanceOf(Promise);
    await turn;
    expect(throttle.pause('a', 100 * 1024)).toBeUndefined();
  });

  it('queues the chunks of one project behind each other, and no other project behind them', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('b');
    throttle.noteRequest('a');
    const order: string[] = [];
    const after = async (project: string, bytes: number, name: string) => {
      await throttle.pause(project, bytes);
      order.push(name);
    };
    const all = [1, 2, 3].map((n) => after('a', 2 * MIB, `a${n}`));
    all.push(after('b', 256 * 1024, 'b'));
    const keepBusy = setInterval(() => (throttle.noteRequest('b'), throttle.noteRequest('a')), 50);
    await Promise.all(all);
    clearInterval(keepBusy);
    expect(order).toEqual(['b', 'a1', 'a2', 'a3']);
  });

  it('forgets a project that has sent nothing for a while', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('b');
    await sleep(300);
    throttle.noteRequest('a');
    expect(throttle.pause('a', 10 * MIB)).toBeUndefined();
  });
});
