/** CommandComplete's tag (Postgres manual 54.7): `INSERT 0 5` is INSERT and 5. `count` is undefined where there is none. */
export function readCommandTag(tag: string): { type: string; count: number | undefined } {
  const [type = '', ...counts] = tag.split(/ (?=\d)/);
  const count = counts.at(-1);
  return { type, count: count === undefined ? undefined : Number(count) };
}
