/** Findings of checks: of `cdp doctor`, and of servers. */
import { type Static, Type } from '../schema.js';

/** `problem`: the service fails to do what it promises. `warning`: it works, but may not continue to. */
export const HEALTH = ['ok', 'warning', 'problem'] as const;
export type Health = (typeof HEALTH)[number];

export const Finding = Type.Object({
  subject: Type.String({ description: 'What was checked: `Postgres`, `durability`, …' }),
  health: Type.Enum(HEALTH),
  found: Type.String({ description: 'What the check found, in words.' }),
  advice: Type.Nullable(Type.String({ description: 'What to do about it; null if there is nothing to do.' })),
});
export type Finding = Static<typeof Finding>;

const wrong =
  (health: 'warning' | 'problem') =>
  (subject: string, found: string, advice: string): Finding => ({ subject, health, found, advice });

export const ok = (subject: string, found: string): Finding => ({ subject, health: 'ok', found, advice: null });
export const warning = wrong('warning');
export const problem = wrong('problem');
