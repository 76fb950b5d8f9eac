/** Texts that Postgres cannot store, wherever they come from (contract section 4). */

const UNSTORABLE = /[\u0000\p{Surrogate}]/u;

/**
 * Why Postgres cannot store a text: it holds U+0000 or half of a surrogate pair, which JSON can send as `\u` escapes.
 */
export function unstorable(text: string): string | undefined {
  const found = UNSTORABLE.exec(text);
  if (found === null) return undefined;
  return `the text contains ${found[0] === '\u0000' ? 'U+0000' : 'a lone surrogate'}, which cannot be stored`;
}
