/** Turns on the event loop that all projects share (engine/limits/event-loop-throttle.ts). */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { EventLoopThrottle } from '../../../src/engine/limits/event-loop-throttle.js';

/** Uses the event loop for at least this long. */
const busy = (ms: number) => () => {
  for (const end = performance.now() + ms; performance.now() < end;);
};

/** A throttle on which `b` has just been active beside `a`. */
function shared(): EventLoopThrottle {
  const throttle = new EventLoopThrottle();
  throttle.noteRequest('b');
  throttle.noteRequest('a');
  return throttle;
}

const after = (ms: number) => sleep(ms, 'after a pause', { ref: false });

describe('event-loop throttle', () => {
  it('runs short work of a project that is alone at once, and one long work per iteration of the event loop', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('a');
    expect(throttle.run('a', () => 'at once')).toBe('at once');
    const order: string[] = [];
    const long = (name: string) =>
      throttle.run('a', () => {
        busy(10)();
        order.push(name);
        setImmediate(() => order.push(`after ${name}`));
      });
    await Promise.all([long('1'), long('2'), long('3')]);
    expect(order).toEqual(['1', 'after 1', '2', 'after 2', '3']);
  });

  it('does not pause a project that is alone', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('a');
    throttle.charge('a', busy(500));
    expect(await Promise.race([throttle.turn('a'), after(900)])).toBeUndefined();
  });

  it('delays a project once it has used more than a turn, by the time used and not by bytes, while another is active', async () => {
    const throttle = shared();
    throttle.charge('a', () => Buffer.alloc(10 * 1024 * 1024));
    throttle.charge('a', busy(6));
    expect(throttle.turn('b')).toBeUndefined();
    const turn = throttle.turn('a');
    expect(turn).toBeInstanceOf(Promise);
    await turn;
    expect(throttle.turn('a')).toBeUndefined();
  });

  it('charges work that fails, too', () => {
    const throttle = shared();
    const fail = () => {
      busy(6)();
      throw new Error('failed');
    };
    expect(() => throttle.charge('a', fail)).toThrow('failed');
    expect(throttle.turn('a')).toBeInstanceOf(Promise);
  });

  it('lets the works of one project follow one another, and no other project wait for them', async () => {
    const throttle = shared();
    const order: string[] = [];
    const work = async (project: string, name: string) =>
      await throttle.run(project, () => {
        busy(project === 'a' ? 10 : 0)();
        order.push(name);
      });
    throttle.charge('a', busy(10));
    const all = [work('a', 'a1'), work('a', 'a2'), work('a', 'a3'), work('b', 'b')];
    const keepBusy = setInterval(() => (throttle.noteRequest('b'), throttle.noteRequest('a')), 5);
    await Promise.all(all);
    clearInterval(keepBusy);
    expect(order).toEqual(['b', 'a1', 'a2', 'a3']);
  });

  it('runs long work in several turns, between which others are served', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('a');
    const seen: string[] = [];
    function* steps() {
      for (let i = 0; i < 4; i++) {
        busy(10)();
        seen.push(`step ${i}`);
        yield;
      }
      return 'done';
    }
    const result = throttle.runSteps('a', steps());
    setImmediate(() => seen.push('another'));
    expect(await result).toBe('done');
    expect(seen.indexOf('another')).toBeLessThan(seen.indexOf('step 3'));
  });

  it('does not pause for work that ended long ago, and not beyond the time for which another is active', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('a');
    throttle.charge('a', busy(300));
    await sleep(1_000);
    throttle.noteRequest('b');
    throttle.noteRequest('a');
    expect(await Promise.race([throttle.turn('a'), after(200)])).toBeUndefined();
    throttle.charge('a', busy(300));
    throttle.noteRequest('b');
    throttle.noteRequest('a');
    expect(await Promise.race([throttle.turn('a'), after(750)])).toBeUndefined();
  });

  it('does not pause for a project that has sent nothing for a while', async () => {
    const throttle = new EventLoopThrottle();
    throttle.noteRequest('b');
    await sleep(300);
    throttle.noteRequest('a');
    throttle.charge('a', busy(500));
    expect(await Promise.race([throttle.turn('a'), after(900)])).toBeUndefined();
  });
});
