/** Indexes of a table on the wire. */
import { LIMITS } from '../limits.js';
import { dryRunFields } from './dry-run.js';
import { STRICT, type Static, Type } from '../schema.js';
import { NameText, success } from './fields.js';

export const CreateIndexBody = Type.Object(
  {
    columns: Type.Array(NameText('column'), { minItems: 1, maxItems: LIMITS.columnsPerIndex, uniqueItems: true }),
    unique: Type.Optional(Type.Boolean({ description: 'No two rows may have the same values; NULL equals nothing.' })),
    name: Type.Optional(
      Type.String({ description: 'Default: Postgres chooses the name.', examples: ['customers_email_idx'] }),
    ),
  },
  STRICT,
);
export type CreateIndexBody = Static<typeof CreateIndexBody>;

export const Index = Type.Object({
  name: Type.String(),
  columns: Type.Array(Type.Nullable(Type.String()), {
    description: 'null for an expression, which only free SQL can create.',
  }),
  unique: Type.Boolean(),
  primary: Type.Boolean({ description: 'true: it is the index of the primary key.' }),
  partial: Type.Boolean({ description: 'true: it covers only some of the rows. Only free SQL can create it.' }),
  valid: Type.Boolean({ description: 'false: CREATE INDEX CONCURRENTLY failed or is still running.' }),
});
export type Index = Static<typeof Index>;

export const IndexResponse = Type.Object({ ...success, table: Type.String(), index: Index, ...dryRunFields });
export type IndexResponse = Static<typeof IndexResponse>;

export const IndexesResponse = Type.Object({ ...success, table: Type.String(), indexes: Type.Array(Index) });
export type IndexesResponse = Static<typeof IndexesResponse>;

export const DropIndexResponse = Type.Object({
  ...success,
  table: Type.String(),
  index: Type.String(),
  ...dryRunFields,
});
export type DropIndexResponse = Static<typeof DropIndexResponse>;
