/** Changes on the wire: the settings of a project's feed, and what its readers get (docs/feed.md). */
import { CHANGES_LIMIT, CURSOR_PATTERN, WAIT_SECONDS } from '../patterns.js';
import { success } from './fields.js';
import { STRICT, type Static, Type } from '../schema.js';

export const CHANGE_OPERATIONS = ['insert', 'update', 'delete', 'truncate', 'schema'] as const;
export type ChangeOperation = (typeof CHANGE_OPERATIONS)[number];

const SETTINGS = {
  tables: Type.Union(
    [
      Type.Literal('all'),
      Type.Array(Type.String({ minLength: 1, maxLength: 127 }), { minItems: 1, maxItems: 1_000, uniqueItems: true }),
    ],
    {
      description:
        'The tables whose changes are kept, `schema.table` for those in other schemas; `all`: every table, also those made later.',
    },
  ),
  old: Type.Boolean({
    description: 'Whether updates and deletes also have the old row. The database then writes more.',
  }),
  retention_hours: Type.Integer({ minimum: 1, maximum: 8_760, description: 'How long changes are kept.' }),
  retention_mib: Type.Integer({
    minimum: 16,
    maximum: 1_048_576,
    description: 'How many MiB of changes are kept at most.',
  }),
} as const;

export const FeedSettings = Type.Object(SETTINGS);
export type FeedSettings = Static<typeof FeedSettings>;

export const FEED_DEFAULTS: FeedSettings = { tables: 'all', old: false, retention_hours: 72, retention_mib: 1_024 };

export const FeedBody = Type.Object(
  {
    tables: Type.Optional(SETTINGS.tables),
    old: Type.Optional(SETTINGS.old),
    retention_hours: Type.Optional(SETTINGS.retention_hours),
    retention_mib: Type.Optional(SETTINGS.retention_mib),
  },
  { ...STRICT, description: 'What is missing has its default: `all`, `false`, 72, 1024.' },
);
export type FeedBody = Static<typeof FeedBody>;

const FeedTable = Type.Object({
  name: Type.String(),
  changes: Type.Enum(['all', 'inserts'], {
    description:
      '`inserts`: the table has no key by which a change could name its row, so only new rows and TRUNCATE are in the feed.',
  }),
  old: Type.Boolean({ description: 'Whether its changes have the old row.' }),
});

export const FeedState = Type.Object({
  ...SETTINGS,
  /** The oldest cursor from which changes can be read, and the newest. */
  start: Type.Nullable(Type.String({ description: 'The cursor before the oldest change that is kept.' })),
  end: Type.Nullable(Type.String({ description: 'The cursor after the newest change.' })),
  bytes: Type.Integer({ description: 'Bytes of the changes that are kept.' }),
  status: Type.Enum(['reading', 'at_rest', 'behind'], {
    description:
      '`at_rest`: the server of the project is stopped, and all its changes are in the feed. `behind`: they are not, and it is retried.',
  }),
  reason: Type.Nullable(Type.String({ description: 'Why it is behind.' })),
  behind_bytes: Type.Nullable(
    Type.Integer({ description: 'Bytes of WAL that the server keeps for the feed; null while it is stopped.' }),
  ),
  table_list: Type.Nullable(
    Type.Array(FeedTable, { description: 'The tables in the feed now; null while the server is stopped.' }),
  ),
});
export type FeedState = Static<typeof FeedState>;

export const FeedResponse = Type.Object({
  ...success,
  /** null: the project has no feed. */
  feed: Type.Nullable(FeedState),
});
export type FeedResponse = Static<typeof FeedResponse>;

const Cursor = { pattern: CURSOR_PATTERN, examples: ['9f3a01c7.1a2b3c4.2'] };

export const ChangesQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({ ...Cursor, description: 'A cursor of an earlier answer. Default: changes from now on.' }),
    ),
    tables: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 8_192,
        description: 'Names of tables, separated by commas. Default: all that the token may read.',
      }),
    ),
    limit: Type.Optional(
      Type.String({
        pattern: CHANGES_LIMIT,
        description: 'Changes per answer, 1 to 10000; default 1000.',
      }),
    ),
    wait: Type.Optional(
      Type.String({
        pattern: WAIT_SECONDS,
        description: 'Seconds to wait for a change if there is none, 0 to 60; default 0.',
      }),
    ),
  },
  STRICT,
);
export type ChangesQuery = Static<typeof ChangesQuery>;

export const ChangesHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      ...Cursor,
      description: 'What `EventSource` sends when it connects again; it takes precedence over `after`.',
    }),
  ),
});

const Row = Type.Record(Type.Any());

export const Change = Type.Object({
  cursor: Type.String(Cursor),
  op: Type.Enum(CHANGE_OPERATIONS),
  table: Type.String(),
  key: Type.Nullable(
    Type.Any({
      description: 'The key of the row; null if the table has none. For `schema`: the names of the key’s columns.',
    }),
  ),
  record: Type.Optional(Type.Nullable(Row)),
  old: Type.Optional(
    Type.Any({
      description: 'The row before the change, if the feed keeps it; otherwise its key, if that has changed.',
    }),
  ),
  unchanged: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Columns whose values Postgres does not send, because they are long and stayed the same.',
    }),
  ),
  change: Type.Optional(
    Type.Enum([
      'created',
      'altered',
      'renamed',
      'dropped',
      'left',
      'rewritten',
      'partition_attached',
      'partition_detached',
      'partition_dropped',
      'partition_truncated',
    ]),
  ),
  command: Type.Optional(Type.String({ description: "Postgres's command tag." })),
  was: Type.Optional(Type.String({ description: 'The former name of the table.' })),
  partition: Type.Optional(Type.String()),
  columns: Type.Optional(
    Type.Nullable(
      Type.Array(
        Type.Object({ name: Type.String(), type: Type.String({ description: "Postgres's name of the type." }) }),
      ),
    ),
  ),
  snapshot: Type.Optional(
    Type.Boolean({ description: 'Rows have changed that no change tells of: read the table again.' }),
  ),
  committed_at: Type.String({ format: 'date-time' }),
  transaction: Type.String({ description: "Postgres's id of the transaction (xid8), as in a receipt." }),
});
export type Change = Static<typeof Change>;

export const ChangesResponse = Type.Object({
  ...success,
  changes: Type.Array(Change),
  cursor: Type.String({ ...Cursor, description: 'Send it as `after` to go on.' }),
});
export type ChangesResponse = Static<typeof ChangesResponse>;

export const SnapshotQuery = Type.Object({ table: Type.String({ minLength: 1, maxLength: 127 }) }, STRICT);
export type SnapshotQuery = Static<typeof SnapshotQuery>;

export const SnapshotResponse = Type.String({
  description: 'NDJSON: `{"cursor":…,"table":…,"key":[…]}`, a line for each row, and `{"done":true,"row_count":…}`.',
});
