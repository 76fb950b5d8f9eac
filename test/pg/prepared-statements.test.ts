/** The prepared statements of a session are bounded in number and length, and the oldest is closed first. */
import { expect, it } from 'vitest';
import { PreparedStatements } from '../../src/pg/prepared-statements.js';

/** Types of the messages that running the texts in turn sends: P(arse), B(ind), E(xecute), C(lose). */
function sent(prepared: PreparedStatements, texts: readonly string[]): string {
  const bytes = Buffer.concat(texts.flatMap((text) => prepared.run({ text, params: [] })));
  let types = '';
  for (let at = 0; at < bytes.length; at += 1 + bytes.readInt32BE(at + 1))
    types += bytes.toString('latin1', at, at + 1);
  return types;
}

it.each([
  ['short', 10, 100],
  ['long', 100_000, 5],
  ['longer than all may be together', 1_000_000, 1],
])('keeps a bounded number of %s statements', (_what, length, most) => {
  const prepared = new PreparedStatements();
  const texts = Array.from({ length: most + 1 }, (_, i) => String(i).padEnd(length, '.'));
  const [first = '', ...others] = texts;
  expect(sent(prepared, [...texts.slice(0, -1), first])).toBe(`${'PBE'.repeat(most)}BE`);
  expect(sent(prepared, others)).toBe(`${'BE'.repeat(most - 1)}CPBE`);
  expect(sent(prepared, [first])).toBe('CPBE');
});
