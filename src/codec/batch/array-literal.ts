/** Postgres's text form of an array (Postgres manual 8.15.2 and 8.15.6), written without reading it back anywhere. */

const SPECIAL = /["\\]/;
const EVERY_SPECIAL = /["\\]/g;

/** @param elements each by {@link quotedElement}, or a nested array literal. */
export function arrayLiteral(elements: readonly string[]): string {
  return `{${elements.join(',')}}`;
}

/** An element in quotes, so that nothing in it is read as syntax, nor the text NULL as a null. */
export function quotedElement(text: string | null): string {
  return text === null ? 'NULL' : `"${SPECIAL.test(text) ? text.replace(EVERY_SPECIAL, '\\$&') : text}"`;
}
