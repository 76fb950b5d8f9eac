/** Finds texts that Postgres cannot store (contract section 4). */

const UNSTORABLE = /[\u0000\p{Surrogate}]/u;

/** Why Postgres cannot store a text: it contains U+0000 or a lone surrogate, which JSON can send as `\u` escapes. */
export function unstorable(text: string): string | undefined {
  const found = UNSTORABLE.exec(text);
  if (found === null) return undefined;
  return `the text contains ${found[0] === '\u0000' ? 'U+0000' : 'a lone surrogate'}, which cannot be stored`;
}
