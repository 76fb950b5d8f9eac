/** Pieces of messages: what a caller sent, as far as a message repeats it, and numbers of things. */

/** Escaped, in quotes, and cut where it is longer than a name. */
export function quoted(text: string, characters: number = 63): string {
  return JSON.stringify(cut(text, characters));
}

/** The beginning of a text that may be as long as the body. It does not end in half a surrogate pair. */
export function cut(text: string, characters: number = 63): string {
  return text.length > characters ? `${text.slice(0, characters).replace(/[\ud800-\udbff]$/, '')}…` : text;
}

/** A number of things: `1 record`, `2 records`. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
