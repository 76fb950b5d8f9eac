/** docs/places.md as a list: the areas, and the places in each with their names. */
import { read } from './markdown.js';

interface Place {
  readonly title: string;
  /**
   * Tables as `schema.table`, files and folders below the root of the area; a folder ends with a slash and stands for all
   * that is in it. Words in angle brackets stand for any name. Empty: it has no name.
   */
  readonly names: readonly string[];
  /** What the page says of it, by the words in bold. */
  readonly facts: ReadonlyMap<string, string>;
}

/** The page may break lines anywhere. */
const unwrapped = (text: string): string => text.replace(/\n(?! *[-#\n])(?<=[^\n]\n)\s*/g, ' ').trim();

const sectionsOf = (text: string, level: string): string[] => text.split(new RegExp(`^${level} `, 'm')).slice(1);

function readPlace(section: string): Place {
  const [title = '', first = ''] = section.split('\n\n');
  const names = /^`[^`]+`(?:, `[^`]+`)*$/.test(first)
    ? Array.from(first.matchAll(/`([^`]+)`/g), ([, name]) => name ?? '')
    : [];
  const facts = new Map(
    Array.from(section.matchAll(/^- \*\*(.+?)\*\*: (.+)$/gm), ([, word = '', fact = '']) => [word, fact]),
  );
  return { title, names, facts };
}

/** The places by the title of their area. */
export const PLACES: ReadonlyMap<string, readonly Place[]> = new Map(
  sectionsOf(unwrapped(read('docs/places.md')), '##').map((area) => [
    area.split('\n', 1)[0] ?? '',
    sectionsOf(area, '###').map(readPlace),
  ]),
);

/** @throws Error if the page has no such area */
export function namesIn(area: string): string[] {
  const places = PLACES.get(area);
  if (places === undefined) throw new Error(`docs/places.md has no area "${area}"`);
  return places.flatMap(({ names }) => names);
}
