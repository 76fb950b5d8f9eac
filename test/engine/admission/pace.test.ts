/** Turns on the one event loop that all projects share (engine/admission/pace.ts). */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Pace } from '../../../src/engine/admission/pace.js';

const MIB = 1024 * 1024;

describe('pace', () => {
  it('lets a project alone, whatever it sends', () => {
    const pace = new Pace();
    pace.saw('a');
    expect(pace.wait('a', 10 * MIB)).toBeUndefined();
    expect(pace.wait('a', 10 * MIB)).toBeUndefined();
  });

  it('lets small pieces pass, and has their sum wait, while another project is at work', async () => {
    const pace = new Pace();
    pace.saw('b');
    pace.saw('a');
    expect(pace.wait('a', 100 * 1024)).toBeUndefined();
    expect(pace.wait('a', 100 * 1024)).toBeUndefined();
    const turn = pace.wait('a', 100 * 1024);
    expect(turn).toBeInstanceOf(Promise);
    await turn;
    expect(pace.wait('a', 100 * 1024)).toBeUndefined();
  });

  it('has the pieces of one project wait one behind the other, and no other project behind them', async () => {
    const pace = new Pace();
    pace.saw('b');
    pace.saw('a');
    const order: string[] = [];
    const after = async (project: string, bytes: number, name: string) => {
      await pace.wait(project, bytes);
      order.push(name);
    };
    const all = [1, 2, 3].map((n) => after('a', 2 * MIB, `a${n}`));
    all.push(after('b', 256 * 1024, 'b'));
    const keepBusy = setInterval(() => (pace.saw('b'), pace.saw('a')), 50);
    await Promise.all(all);
    clearInterval(keepBusy);
    expect(order).toEqual(['b', 'a1', 'a2', 'a3']);
  });

  it('forgets a project that has sent nothing for a while', async () => {
    const pace = new Pace();
    pace.saw('b');
    await sleep(300);
    pace.saw('a');
    expect(pace.wait('a', 10 * MIB)).toBeUndefined();
  });
});
