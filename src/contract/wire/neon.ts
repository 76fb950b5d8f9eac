/** Requests and responses of the driver `@neondatabase/serverless`. */
import { LIMITS } from '../limits.js';
import { STRICT, type Static, Type } from '../schema.js';
import { SqlParams } from './sql.js';

const Bool = Type.Enum(['true', 'false']);

export const NeonHeaders = Type.Object({
  'Neon-Connection-String': Type.Optional(
    Type.String({
      description:
        '`postgresql://USER:TOKEN@HOST/PROJECT`. USER is `writer` or `reader`. The token may be in the Authorization ' +
        'header instead.',
    }),
  ),
  'Neon-Raw-Text-Output': Type.Optional({ ...Bool, description: "true: every value is Postgres's text, or null." }),
  'Neon-Array-Mode': Type.Optional({ ...Bool, description: 'true: rows are arrays.' }),
  'Neon-Batch-Isolation-Level': Type.Optional(
    Type.Enum(['ReadUncommitted', 'ReadCommitted', 'RepeatableRead', 'Serializable']),
  ),
  'Neon-Batch-Read-Only': Type.Optional(Bool),
  'Neon-Batch-Deferrable': Type.Optional(Bool),
});

const query = {
  query: Type.String({
    description: `One statement, up to ${LIMITS.sqlBytes} bytes of UTF-8.`,
    examples: ['SELECT 1'],
  }),
  params: Type.Optional(SqlParams),
};

export const NeonQuery = Type.Object(query, STRICT);

export const NeonBody = Type.Union([
  NeonQuery,
  Type.Object({ queries: Type.Array(NeonQuery, { maxItems: LIMITS.queriesPerBatch }) }, STRICT),
]);

export const NeonField = Type.Object({
  name: Type.String(),
  dataTypeID: Type.Integer({ description: 'The OID of its type.' }),
  tableID: Type.Integer(),
  columnID: Type.Integer(),
  dataTypeSize: Type.Integer(),
  dataTypeModifier: Type.Integer(),
  format: Type.Literal('text'),
});

export const NeonQueryResult = Type.Object({
  command: Type.String({ examples: ['SELECT'] }),
  rowCount: Type.Nullable(Type.Integer({ description: 'Rows returned or affected.' })),
  fields: Type.Array(NeonField),
  rowAsArray: Type.Boolean(),
  rows: Type.Array(Type.Any({ description: 'An object (or an array with Neon-Array-Mode).' })),
});

export const NeonResponse = Type.Union([NeonQueryResult, Type.Object({ results: Type.Array(NeonQueryResult) })]);
export type NeonResponse = Static<typeof NeonResponse>;
