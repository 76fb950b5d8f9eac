/**
 * The tables of events and their fixed columns, in the names of Segment's warehouse schema, so that what is written for that
 * works here too. Each event is a row whose `id` is its messageId: a repeat finds it there.
 */
import type { ColumnType } from '../../contract/column-types.js';
import type { EventSettings } from '../../contract/wire/events.js';
import type { CallType } from './read-events.js';

/** Types by the names of columns. */
export type Columns = Readonly<Record<string, ColumnType>>;

/** What of an event has no column, or does not fit it, at its place in the event. */
export const UNMAPPED = 'unmapped';

/** What browsers and servers usually send, so that it has columns also where events make none. */
const CONTEXT: Columns = {
  context_ip: 'TEXT',
  context_user_agent: 'TEXT',
  context_user_agent_data_brands: 'TEXT',
  context_user_agent_data_mobile: 'BOOLEAN',
  context_user_agent_data_platform: 'TEXT',
  context_locale: 'TEXT',
  context_timezone: 'TEXT',
  context_library_name: 'TEXT',
  context_library_version: 'TEXT',
  context_page_path: 'TEXT',
  context_page_referrer: 'TEXT',
  context_page_search: 'TEXT',
  context_page_title: 'TEXT',
  context_page_url: 'TEXT',
  context_campaign_name: 'TEXT',
  context_campaign_source: 'TEXT',
  context_campaign_medium: 'TEXT',
  context_campaign_term: 'TEXT',
  context_campaign_content: 'TEXT',
};

const EVENT: Columns = {
  received_at: 'TIMESTAMP',
  sent_at: 'TIMESTAMP',
  original_timestamp: 'TIMESTAMP',
  timestamp: 'TIMESTAMP',
  anonymous_id: 'TEXT',
  user_id: 'TEXT',
  ...CONTEXT,
  [UNMAPPED]: 'JSONB',
};

const NAMED: Columns = { event: 'TEXT', event_text: 'TEXT' };

const PAGE: Columns = {
  name: 'TEXT',
  category: 'TEXT',
  path: 'TEXT',
  referrer: 'TEXT',
  search: 'TEXT',
  title: 'TEXT',
  url: 'TEXT',
};

/** The latest traits of somebody, or of a group. */
const PEOPLE: Columns = { received_at: 'TIMESTAMP', timestamp: 'TIMESTAMP', [UNMAPPED]: 'JSONB' };

/** The table of every event of a kind; those of `track` have one for each name, besides. */
export const TABLE_OF: Readonly<Record<CallType, string>> = {
  track: 'tracks',
  identify: 'identifies',
  page: 'pages',
  screen: 'screens',
  group: 'groups',
  alias: 'aliases',
};

/** The tables of the latest traits, by the events that bring them. */
export const PEOPLE_OF: Partial<Readonly<Record<CallType, string>>> = { identify: 'users', group: 'accounts' };

export const PEOPLE_TABLES: ReadonlySet<string> = new Set(Object.values(PEOPLE_OF));

/** The columns besides `id` of the tables that every project with events has. */
const FIXED: Readonly<Record<string, Columns>> = {
  tracks: { ...EVENT, ...NAMED },
  identifies: EVENT,
  pages: { ...EVENT, ...PAGE },
  screens: { ...EVENT, ...PAGE },
  groups: { ...EVENT, group_id: 'TEXT' },
  aliases: { ...EVENT, previous_id: 'TEXT' },
  users: PEOPLE,
  accounts: PEOPLE,
};

/** The columns of a table for one name of event. */
const COLUMNS_OF_NAME: Columns = { ...EVENT, ...NAMED };

/** Columns that only the service fills: properties of these names get a prefix. */
export const OWN_COLUMNS: ReadonlySet<string> = new Set([
  'id',
  ...['received_at', 'sent_at', 'original_timestamp', 'timestamp', 'anonymous_id', 'user_id', UNMAPPED],
  ...['event', 'event_text', 'group_id', 'previous_id', 'context', 'properties', 'traits'],
]);

/** In which column the mode `json` keeps what the events of a table bring. */
export const jsonColumnOf = (table: string): 'properties' | 'traits' =>
  ['identifies', 'groups', 'users', 'accounts'].includes(table) ? 'traits' : 'properties';

/** Whether every project with events has the table. */
export const isFixed = (table: string): boolean => Object.hasOwn(FIXED, table);

/** The tables that every project with events has, by name. */
export function fixedTables({ mode }: Pick<EventSettings, 'mode'>): ReadonlyMap<string, Columns> {
  const tables = Object.entries(FIXED).map(([table, columns]): [string, Columns] => [
    table,
    mode === 'columns' ? columns : { ...columns, ...json(table) },
  ]);
  return new Map(tables);
}

/** The columns with which a table is made, before those that events bring. */
export const columnsOfNew = (table: string, settings: Pick<EventSettings, 'mode'>): Columns =>
  fixedTables(settings).get(table) ?? COLUMNS_OF_NAME;

const json = (table: string): Columns => ({
  [jsonColumnOf(table)]: 'JSONB',
  ...(PEOPLE_TABLES.has(table) ? {} : { context: 'JSONB' }),
});
