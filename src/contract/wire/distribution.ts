/** The distribution of a table's rows over the workers of a Citus cluster, on the wire. */
import { STRICT, type Static, Type } from '../schema.js';
import { dryRunFields } from './dry-run.js';
import { success } from './fields.js';

export const DISTRIBUTION_KINDS = ['hash', 'reference', 'local'] as const;

const Kind = Type.Enum(DISTRIBUTION_KINDS, {
  description:
    '`hash`: the values of a column decide on which worker a row is. `reference`: every node has a copy. `local`: the rows are on the coordinator.',
});

export const DistributeBody = Type.Object(
  {
    kind: Kind,
    column: Type.Optional(
      Type.String({ description: 'The column for `hash`. It must not contain NULL.', examples: ['customer_id'] }),
    ),
    colocate_with: Type.Optional(
      Type.String({
        description: 'For `hash`: keep rows on the worker that has the rows of this table with the same value.',
      }),
    ),
  },
  STRICT,
);
export type DistributeBody = Static<typeof DistributeBody>;

export const Distribution = Type.Object({
  kind: Kind,
  column: Type.Nullable(Type.String()),
  colocated_with: Type.Array(Type.String(), {
    description: 'Tables that keep rows with the same value on the same worker.',
  }),
  shards: Type.Integer(),
  nodes: Type.Array(
    Type.Object({
      node: Type.Integer({ description: 'The id of the worker in Citus.' }),
      shards: Type.Integer(),
      bytes: Type.Nullable(Type.Integer({ description: 'Size with indexes; null if the worker does not answer.' })),
    }),
  ),
  skew: Type.Nullable(Type.Number({ description: 'The size of the largest shard divided by that of an average one.' })),
});
export type Distribution = Static<typeof Distribution>;

export const DistributionResponse = Type.Object({
  ...success,
  table: Type.String(),
  distribution: Type.Object({ kind: Kind, column: Type.Nullable(Type.String()) }),
  primary_key: Type.Array(Type.String(), {
    description: 'Columns of the primary key, which includes the distribution column.',
  }),
  ...dryRunFields,
});
export type DistributionResponse = Static<typeof DistributionResponse>;
