/** What is under way is looked at, and nothing that has left. */
import { describe, expect, test, vi } from 'vitest';
import { Rounds, type Watched } from '../../../src/engine/admission/rounds.js';

interface Member extends Watched {
  readonly name: string;
  looks: number;
  /** Of looks at it after it had left. */
  late: number;
}

function crowd(names: readonly string[], onLook: (member: Member, leave: (name: string) => void) => void) {
  const rounds = new Rounds<Member>();
  const gone = new Set<string>();
  const members = new Map<string, Member>();
  const leave = (name: string) => {
    gone.add(name);
    rounds.delete(members.get(name) as Member);
  };
  for (const name of names) {
    const member: Member = {
      name,
      looks: 0,
      late: 0,
      look: () => {
        member.looks++;
        if (gone.has(name)) member.late++;
        else onLook(member, leave);
      },
    };
    members.set(name, member);
    rounds.add(member);
  }
  return { rounds, members: [...members.values()], leave };
}

const NAMES = ['a', 'b', 'c', 'd', 'e'];

const PATIENCE = { timeout: 30_000, interval: 5 };

describe('Rounds', () => {
  test('looks at every member, whoever leaves during the round', async () => {
    for (const leaver of NAMES) {
      for (const left of NAMES) {
        const { rounds, members } = crowd(NAMES, ({ name }, leave) => {
          if (name === leaver) leave(left);
        });
        await vi.waitFor(() => {
          for (const { name, looks } of members) if (name !== left) expect(looks).toBeGreaterThan(0);
        }, PATIENCE);
        expect(members.map(({ late }) => late)).toEqual([0, 0, 0, 0, 0]);
        expect([...rounds].map(({ name }) => name).sort()).toEqual(NAMES.filter((name) => name !== left));
        for (const member of members) rounds.delete(member);
      }
    }
  }, 60_000);

  test('looks at nobody again when all have left in one look', async () => {
    const { rounds, members } = crowd(NAMES, (_member, leave) => NAMES.forEach(leave));
    await vi.waitFor(() => expect([...rounds]).toEqual([]), PATIENCE);
    expect(members.map(({ late }) => late)).toEqual([0, 0, 0, 0, 0]);
    expect(members.reduce((sum, { looks }) => sum + looks, 0)).toBe(1);
  }, 60_000);

  test('does not mind one that has left already', () => {
    const { rounds, members, leave } = crowd(NAMES, () => {});
    leave('b');
    leave('b');
    expect([...rounds].map(({ name }) => name).sort()).toEqual(['a', 'c', 'd', 'e']);
    for (const member of members) rounds.delete(member);
  });
});
