/** Names of events and properties as names of tables and columns: snake case, as in Segment's and RudderStack's warehouses. */
import { isSystemColumn } from '../schema/definition.js';
import { isFixed, OWN_COLUMNS } from './event-tables.js';

/** In UTF-8; Postgres would cut a longer one. */
const NAME_CHARACTERS = 63;

/** Callers repeat few names, and each takes some patterns. Forgotten when there are too many. */
const MOST_REMEMBERED = 10_000;
const tables = new Map<string, string | null>();
const columns = new Map<string, string | null>();

/** The table for events of a name; null: there can be none. */
export const tableNameOf = (event: string): string | null => nameOf(event, tables, isFixed);

/** The column of a property, or of a value in one, by the names that lead to it; null: there can be none. */
export const columnNameOf = (property: string): string | null =>
  nameOf(property, columns, (name) => OWN_COLUMNS.has(name) || isSystemColumn(name));

function nameOf(text: string, known: Map<string, string | null>, isTaken: (name: string) => boolean): string | null {
  const before = known.get(text);
  if (before !== undefined) return before;
  const snake = snakeCase(text);
  const prefixed = /^[0-9]/.test(snake) || isTaken(snake) ? `_${snake}` : snake;
  const name = prefixed === '' || prefixed.length > NAME_CHARACTERS ? null : prefixed;
  if (known.size >= MOST_REMEMBERED) known.clear();
  if (text.length <= 3 * NAME_CHARACTERS) known.set(text, name);
  return name;
}

/** ASCII: letters lose their accents, and others become an underscore. */
const snakeCase = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
    .toLowerCase();
