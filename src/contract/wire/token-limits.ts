/** What narrows a token whose only scope is `data:append`, so that it may be public (contract C3.14). */
import { NAME_PATTERN } from '../names.js';
import { ORIGIN } from '../patterns.js';
import { type Schema, STRICT, type Static, Type } from '../schema.js';

const most = (description: string) => Type.Integer({ minimum: 1, maximum: 1_000_000_000, description });

const list = (pattern: string, description: string) =>
  Type.Array(Type.String({ pattern }), { minItems: 1, maxItems: 100, uniqueItems: true, description });

const LIMITS = {
  tables: list(NAME_PATTERN, 'The only tables into which it inserts.'),
  origins: list(
    ORIGIN,
    'Pages of these origins may use it from a browser. A request with another `Origin` header is refused.',
  ),
  requests_per_second: most('Requests a second, on each instance.'),
  requests_per_day: most('Requests a day, in UTC, on all instances together.'),
  rows_per_second: most('Records a second, on each instance. Larger batches are taken, and the next ones wait.'),
  rows_per_day: most('Records a day, in UTC, on all instances together.'),
  users: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    description:
      'Whether its events change `users` and `accounts`, the latest traits of each. Default: `off` with origins, since ' +
      'whoever has the key could overwrite those of somebody else.',
  }),
} as const;

const optional = <T>(schema: Schema<T>) => Type.Optional(Type.Nullable(schema));

export const NewTokenLimits = Type.Object(
  {
    tables: optional(LIMITS.tables),
    origins: optional(LIMITS.origins),
    requests_per_second: optional(LIMITS.requests_per_second),
    requests_per_day: optional(LIMITS.requests_per_day),
    rows_per_second: optional(LIMITS.rows_per_second),
    rows_per_day: optional(LIMITS.rows_per_day),
    users: optional(LIMITS.users),
  },
  {
    ...STRICT,
    description: 'Narrows a token whose only scope is `data:append`. What is null or missing is not limited.',
  },
);
export type NewTokenLimits = Static<typeof NewTokenLimits>;

/** As stored, and as responses show them. null: no limit. */
export const TokenLimits = Type.Object({
  tables: Type.Nullable(LIMITS.tables),
  origins: Type.Nullable(LIMITS.origins),
  requests_per_second: Type.Nullable(LIMITS.requests_per_second),
  requests_per_day: Type.Nullable(LIMITS.requests_per_day),
  rows_per_second: Type.Nullable(LIMITS.rows_per_second),
  rows_per_day: Type.Nullable(LIMITS.rows_per_day),
  users: Type.Optional(Type.Nullable(LIMITS.users)),
});
export type TokenLimits = Static<typeof TokenLimits>;
