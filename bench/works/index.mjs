/** All works, in the order in which they run. */
import { RESPONSES } from './responses.mjs';
import { GROWTH } from './growth.mjs';
import { INSERTS } from './inserts.mjs';
import { PROJECTS } from './projects.mjs';
import { START } from './start.mjs';
import { STREAM } from './stream.mjs';
import { TABLES } from './tables.mjs';
import { UPSERT } from './upsert.mjs';

const WORKS = [...INSERTS, UPSERT, ...RESPONSES, STREAM, ...TABLES, GROWTH, PROJECTS, START];

/**
 * @param {string[]} only beginnings of names, in any case; none: all
 * @throws Error for a beginning that matches no name
 */
export function chosenWorks(only) {
  const fits = (prefix) => (work) => work.name.toLowerCase().startsWith(prefix.toLowerCase());
  const unknown = only.find((prefix) => !WORKS.some(fits(prefix)));
  if (unknown !== undefined) {
    throw new Error(`There is no work "${unknown}"; the works are ${WORKS.map(({ name }) => name).join(', ')}`);
  }
  return WORKS.filter((work) => only.length === 0 || only.some((prefix) => fits(prefix)(work)));
}
