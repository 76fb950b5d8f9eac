/** Checks requests in progress, and none that has ended. */
import { describe, expect, test, vi } from 'vitest';
import { PeriodicChecks, type Checkable } from '../../src/db/periodic-checks.js';

interface Member extends Checkable {
  readonly name: string;
  checks: number;
  /** Checks after it had left. */
  late: number;
}

function crowd(names: readonly string[], onCheck: (member: Member, leave: (name: string) => void) => void) {
  const sweeper = new PeriodicChecks<Member>();
  const gone = new Set<string>();
  const members = new Map<string, Member>();
  const leave = (name: string) => {
    gone.add(name);
    sweeper.delete(members.get(name) as Member);
  };
  for (const name of names) {
    const member: Member = {
      name,
      checks: 0,
      late: 0,
      check: () => {
        member.checks++;
        if (gone.has(name)) member.late++;
        else onCheck(member, leave);
      },
    };
    members.set(name, member);
    sweeper.add(member);
  }
  return { sweeper, members: [...members.values()], leave };
}

const NAMES = ['a', 'b', 'c', 'd', 'e'];

const PATIENCE = { timeout: 30_000, interval: 5 };

describe('PeriodicChecks', () => {
  test('checks every member, even if some leave during the sweep', async () => {
    for (const leaver of NAMES) {
      for (const left of NAMES) {
        const { sweeper, members } = crowd(NAMES, ({ name }, leave) => {
          if (name === leaver) leave(left);
        });
        await vi.waitFor(() => {
          for (const { name, checks } of members) if (name !== left) expect(checks).toBeGreaterThan(0);
        }, PATIENCE);
        expect(members.map(({ late }) => late)).toEqual([0, 0, 0, 0, 0]);
        for (const member of members) sweeper.delete(member);
      }
    }
  }, 60_000);

  test('checks nothing more if all leave in one check', async () => {
    const { members } = crowd(NAMES, (_member, leave) => NAMES.forEach(leave));
    await vi.waitFor(() => expect(members.some(({ checks }) => checks > 0)).toBe(true), PATIENCE);
    expect(members.map(({ late }) => late)).toEqual([0, 0, 0, 0, 0]);
    expect(members.reduce((sum, { checks }) => sum + checks, 0)).toBe(1);
  }, 60_000);

  test('ignores a member that leaves twice', async () => {
    const { sweeper, members, leave } = crowd(NAMES, () => {});
    leave('b');
    leave('b');
    await vi.waitFor(() => expect(members.map(({ checks }) => checks > 0)).toEqual([true, false, true, true, true]));
    for (const member of members) sweeper.delete(member);
  });
});
