/** Schema calls on the wire: creating, changing, reading and dropping tables and columns (contract C6). */
import { COLUMN_TYPES } from '../column-types.js';
import { LIMITS } from '../limits.js';
import { DOCUMENTED, STRICT, type Static, Type } from '../schema.js';
import { DistributeBody, Distribution } from './distribution.js';
import { Index } from './indexes.js';
import { NameText, success } from './fields.js';
import { dryRunFields } from './dry-run.js';

const Comment = Type.Nullable(
  Type.String({ maxLength: LIMITS.commentCharacters, description: 'A description; "" or null for none.' }),
);

export const ColumnType = Type.String({
  description: 'Type names are case-insensitive.',
  examples: ['TEXT'],
  [DOCUMENTED]: { enum: COLUMN_TYPES },
});

const Default = Type.Any({
  description: 'The value, as in a record, for records that leave the column out; null for none.',
});

// Create a table, add a column: a column is described in the same way

export const AddColumnBody = Type.Object(
  {
    name: NameText('column'),
    type: ColumnType,
    comment: Type.Optional(Comment),
    unique: Type.Optional(Type.Boolean({ description: 'No two rows may have the same value, except NULL.' })),
    not_null: Type.Optional(Type.Boolean({ description: 'The column rejects NULL.' })),
    default: Type.Optional(Default),
  },
  STRICT,
);
export type AddColumnBody = Static<typeof AddColumnBody>;

export const CreateTableBody = Type.Object(
  {
    table_name: NameText('table'),
    columns: Type.Array(AddColumnBody, { minItems: 1, maxItems: LIMITS.columnsPerTable }),
    comment: Type.Optional(Comment),
    distribution: Type.Optional(DistributeBody),
  },
  STRICT,
);
export type CreateTableBody = Static<typeof CreateTableBody>;

export const CreateTableResponse = Type.Object({
  ...success,
  table: Type.String(),
  columns: Type.Array(Type.String(), { description: 'Column names, `id` first.' }),
  ...dryRunFields,
});
export type CreateTableResponse = Static<typeof CreateTableResponse>;

export const Column = Type.Object({
  name: Type.String(),
  type: Type.String({ description: "One of the six types, or Postgres's name for any other type." }),
  comment: Type.Nullable(Type.String()),
  not_null: Type.Optional(
    Type.Boolean({
      description: 'true: the column rejects NULL. Left out otherwise, and for the `id` that the service adds.',
    }),
  ),
  default: Type.Optional(
    Type.String({
      description:
        'The default as an SQL expression. Left out if there is none, and for the `id` that the service adds.',
    }),
  ),
});
export type Column = Static<typeof Column>;

export const ColumnResponse = Type.Object({ ...success, table: Type.String(), column: Column, ...dryRunFields });
export type ColumnResponse = Static<typeof ColumnResponse>;

// Alter a column

export const AlterColumnBody = Type.Object(
  {
    new_name: Type.Optional(NameText('column')),
    new_type: Type.Optional(ColumnType),
    map: Type.Optional(
      Type.Record(Type.Nullable(Type.String()), {
        maxProperties: LIMITS.mappedValues,
        description:
          'With new_type: values to replace before they are converted, as text, by their text in responses; null for NULL.',
        examples: [{ yes: 'true', no: 'false' }],
      }),
    ),
    comment: Type.Optional(Comment),
    not_null: Type.Optional(Type.Boolean({ description: 'true: the column rejects NULL; false: it accepts NULL.' })),
    default: Type.Optional(Default),
    unique: Type.Optional(Type.Boolean({ description: 'true: no two rows may have the same value; false: they may.' })),
  },
  { ...STRICT, description: 'Give at least one field.' },
);
export type AlterColumnBody = Static<typeof AlterColumnBody>;

export const AlterColumnQuery = Type.Object(
  {
    return: Type.Optional(
      Type.Literal('values', {
        description: 'If values cannot be converted, list the most frequent ones. Also requires the scope sql:write.',
      }),
    ),
  },
  STRICT,
);
export type AlterColumnQuery = Static<typeof AlterColumnQuery>;

// Rename and comment a table

export const AlterTableBody = Type.Object(
  { new_name: Type.Optional(NameText('table')), comment: Type.Optional(Comment) },
  { ...STRICT, description: 'Give at least one of the two.' },
);
export type AlterTableBody = Static<typeof AlterTableBody>;

export const AlteredTable = Type.Object({ table: Type.String(), comment: Type.Nullable(Type.String()) });
export type AlteredTable = Static<typeof AlteredTable>;

export const AlterTableResponse = Type.Object({
  ...success,
  table: Type.String(),
  comment: Type.Nullable(Type.String()),
  ...dryRunFields,
});
export type AlterTableResponse = Static<typeof AlterTableResponse>;

// Reads and drops (contract C6.11, C6.13)

const table = {
  name: Type.String(),
  kind: Type.Enum(['table', 'view', 'materialized_view', 'foreign_table']),
  comment: Type.Nullable(Type.String()),
  approximate_rows: Type.Nullable(Type.Integer({ description: "From Postgres's statistics; null for a view." })),
  columns: Type.Array(Column),
  distribution: Type.Optional(Distribution),
};

export const Table = Type.Object(table);
export type Table = Static<typeof Table>;

export const SchemaResponse = Type.Object({ ...success, tables: Type.Array(Table) });
export type SchemaResponse = Static<typeof SchemaResponse>;

export const DescribedTable = Type.Object({
  ...table,
  indexes: Type.Array(Index, { description: 'The primary key comes first.' }),
});
export type DescribedTable = Static<typeof DescribedTable>;

export const TableResponse = Type.Object({ ...success, table: DescribedTable });
export type TableResponse = Static<typeof TableResponse>;

export const DropTableResponse = Type.Object({ ...success, table: Type.String(), ...dryRunFields });
export type DropTableResponse = Static<typeof DropTableResponse>;

export const DropColumnResponse = Type.Object({
  ...success,
  table: Type.String(),
  column: Type.String(),
  ...dryRunFields,
});
export type DropColumnResponse = Static<typeof DropColumnResponse>;
