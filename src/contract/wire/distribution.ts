/** How the rows of a table are distributed over the workers of a Citus cluster, on the wire. */
import { STRICT, type Static, Type } from '../schema.js';
import { rehearsed } from './rehearsal.js';
import { success } from './success.js';

export const DISTRIBUTION_KINDS = ['hash', 'reference', 'local'] as const;

const Kind = Type.Enum(DISTRIBUTION_KINDS, {
  description:
    '`hash`: by the values of a column, over all workers. `reference`: a copy on every node. `local`: on the coordinator.',
});

export const DistributeBody = Type.Object(
  {
    kind: Kind,
    column: Type.Optional(Type.String({ description: 'Of `hash`. It can have no NULL.', examples: ['customer_id'] })),
    colocate_with: Type.Optional(
      Type.String({ description: 'Of `hash`: a table whose rows with the same value are to be on the same worker.' }),
    ),
  },
  STRICT,
);
export type DistributeBody = Static<typeof DistributeBody>;

export const Distribution = Type.Object({
  kind: Kind,
  column: Type.Nullable(Type.String()),
  colocated_with: Type.Array(Type.String(), {
    description: 'Tables whose rows with the same value are on the same worker.',
  }),
  shards: Type.Integer(),
  nodes: Type.Array(
    Type.Object({
      node: Type.Integer({ description: 'Id of the worker in Citus.' }),
      shards: Type.Integer(),
      bytes: Type.Nullable(Type.Integer({ description: 'With its indexes; null if the worker does not answer.' })),
    }),
  ),
  skew: Type.Nullable(Type.Number({ description: 'Bytes of the largest shard, divided by those of an average one.' })),
});
export type Distribution = Static<typeof Distribution>;

export const DistributionAnswer = Type.Object({
  ...success,
  table: Type.String(),
  distribution: Type.Object({ kind: Kind, column: Type.Nullable(Type.String()) }),
  primary_key: Type.Array(Type.String(), {
    description: 'Columns of the primary key, which has that of the distribution.',
  }),
  ...rehearsed,
});
export type DistributionAnswer = Static<typeof DistributionAnswer>;

/** What changed, as the engine tells it. */
export const Distributed = Type.Object({
  kind: Kind,
  column: Type.Nullable(Type.String()),
  primaryKey: Type.Array(Type.String()),
});
export type Distributed = Static<typeof Distributed>;
