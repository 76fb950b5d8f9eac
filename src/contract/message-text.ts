/** Parts of messages: quoted input of the caller, and counts. */

/** Escapes and quotes the text, and cuts it if it is longer than a name. */
export function quoted(text: string, characters: number = 63): string {
  return JSON.stringify(cut(text, characters));
}

/** Cuts a text, which may be as long as the body. Never ends in half of a surrogate pair. */
export function cut(text: string, characters: number = 63): string {
  return text.length > characters ? `${text.slice(0, characters).replace(/[\ud800-\udbff]$/, '')}…` : text;
}

/** A number of things: `1 record`, `2 records`. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
