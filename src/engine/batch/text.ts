/** Texts that Postgres cannot store, wherever they stand in a cell (contract section 4). */
import { Refusal } from './refusal.js';

const UNSTORABLE = /[\u0000\p{Surrogate}]/u;

/** A refusal where the text holds U+0000 or half of a surrogate pair, which JSON can send as `\u` escapes. */
export function refuseText(value: string): Refusal | undefined {
  const found = UNSTORABLE.exec(value);
  if (found === null) return undefined;
  return new Refusal(
    `the text contains ${found[0] === '\u0000' ? 'U+0000' : 'a lone surrogate'}, which cannot be stored`,
  );
}
