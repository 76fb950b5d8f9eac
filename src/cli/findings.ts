/** Formats findings for people: one line each, with advice below it. */
import type { Finding, Health } from '../contract/wire/operator.js';
import { typed } from './program-name.js';
import { colored } from './terminal/color.js';
import { aligned } from './terminal/grid.js';
import { printable } from './terminal/text.js';

const MARKS: Readonly<Record<Health, string>> = { ok: 'ok', warning: 'WARNING', problem: 'PROBLEM' };

const inColor = (health: Health, line: string): string =>
  health === 'ok' ? line : colored(process.stdout, health === 'warning' ? 'yellow' : 'red', line);

export const countOf = (findings: readonly Finding[], health: Health): number =>
  findings.filter((finding) => finding.health === health).length;

export function findingLines(findings: readonly Finding[]): string[] {
  const rows = aligned(findings.map(({ health, subject, found }) => [MARKS[health], subject, typed(found)]));
  return findings.flatMap(({ health, advice }, i) => [
    inColor(health, rows[i] ?? ''),
    ...(advice === null ? [] : [`    -> ${printable(typed(advice))}`]),
  ]);
}
