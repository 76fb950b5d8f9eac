/** Saved queries on the wire: SQL of the project that its members and their programs run by name (docs/queries.md). */
import { COLUMN_TYPES } from '../column-types.js';
import { LIMITS } from '../limits.js';
import { NAME_PATTERN } from '../names.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './fields.js';
import { SavedSql } from './schedules.js';
import { runOptions } from './sql.js';

export const QueryParameter = Type.Object(
  {
    name: Type.String({ pattern: NAME_PATTERN, examples: ['country'] }),
    type: Type.Enum(COLUMN_TYPES),
  },
  STRICT,
);
export type QueryParameter = Static<typeof QueryParameter>;

const Parameters = Type.Array(QueryParameter, {
  maxItems: LIMITS.queryParameters,
  description: 'The first is `$1` of the SQL, the next `$2`, ….',
});

const Chart = Type.Nullable(
  Type.Object({}, { additionalProperties: true, description: `Free JSON, at most ${LIMITS.chartBytes} bytes.` }),
);

const Description = Type.Nullable(Type.String({ maxLength: LIMITS.commentCharacters }));

export const QueryBody = Type.Object(
  {
    sql: SavedSql,
    parameters: Type.Optional(Parameters),
    chart: Type.Optional(Chart),
    description: Type.Optional(Description),
    writes: Type.Optional(
      Type.Boolean({
        description:
          'Run as the writer, whoever runs it. Needs `sql:write`. Default: false, as the reader in a READ ONLY transaction.',
      }),
    ),
  },
  STRICT,
);
export type QueryBody = Static<typeof QueryBody>;

export const Query = Type.Object({
  name: Type.String(),
  sql: Type.String(),
  parameters: Parameters,
  chart: Chart,
  description: Description,
  writes: Type.Boolean(),
  created_at: Type.String({ format: 'date-time' }),
  created_by: Type.String(),
  updated_at: Type.String({ format: 'date-time' }),
  updated_by: Type.String(),
});
export type Query = Static<typeof Query>;

export const QueryResponse = Type.Object({ ...success, query: Query });
export type QueryResponse = Static<typeof QueryResponse>;

export const QueriesResponse = Type.Object({ ...success, queries: Type.Array(Query) });
export type QueriesResponse = Static<typeof QueriesResponse>;

export const DeleteQueryResponse = Type.Object({ ...success, query: Type.String() });
export type DeleteQueryResponse = Static<typeof DeleteQueryResponse>;

export const RunQueryBody = Type.Object(
  {
    parameters: Type.Optional(
      Type.Object(
        {},
        { additionalProperties: true, description: 'A value, or null, for each parameter, by its name.' },
      ),
    ),
    ...runOptions,
  },
  STRICT,
);
export type RunQueryBody = Static<typeof RunQueryBody>;
