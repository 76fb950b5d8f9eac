/**
 * Parses CommandComplete's tag (Postgres manual 54.7): `INSERT 0 5` is INSERT and 5. `count` is undefined if the tag
 * has none.
 */
export function readCommandTag(tag: string): { type: string; count: number | undefined } {
  const typeEnd = tag.search(/ \d/);
  if (typeEnd < 0) return { type: tag, count: undefined };
  return { type: tag.slice(0, typeEnd), count: Number(tag.slice(tag.lastIndexOf(' ') + 1)) };
}
