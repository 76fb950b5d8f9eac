/** Free SQL on the wire (contract C13, C14). */
import { LIMITS } from '../limits.js';
import { dryRunFields } from './dry-run.js';
import { readConsistency } from './replicas.js';
import { STRICT, type Static, Type } from '../schema.js';

export const SqlParams = Type.Array(Type.Any(), {
  maxItems: LIMITS.parameters,
  description: 'Values of $1, $2, …',
});

/** How a result is made and returned. */
export const runOptions = {
  ...readConsistency,
  timeout_ms: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LIMITS.timeoutMsMax, description: `Default: ${LIMITS.timeoutMsDefault}.` }),
  ),
  max_rows: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LIMITS.maxRowsMax, description: `Default: ${LIMITS.maxRowsDefault}.` }),
  ),
  row_mode: Type.Optional(Type.Enum(['object', 'array'], { description: 'Default: object.' })),
  numbers: Type.Optional(
    Type.Enum(['string', 'raw'], {
      description:
        'How to write bigint and numeric values: all as strings, or all as JSON numbers with all their digits. ' +
        'Default: numbers up to 2^53-1, strings above.',
    }),
  ),
  columns: Type.Optional(
    Type.Boolean({
      description: 'For NDJSON: begin with a line `{"columns":[…]}`, names and types. Default: false.',
    }),
  ),
};

export const SqlBody = Type.Object(
  {
    sql: Type.String({
      minLength: 1,
      description: `1 byte to ${LIMITS.sqlBytes} bytes of UTF-8.`,
      examples: ['SELECT 1'],
    }),
    params: Type.Optional(SqlParams),
    // Not `default`: openapi-typescript treats a property that has one as required.
    read_only: Type.Optional(
      Type.Boolean({ description: 'Run as the reader, in a READ ONLY transaction. Default: false.' }),
    ),
    ...runOptions,
  },
  STRICT,
);
export type SqlBody = Static<typeof SqlBody>;

export const ResultColumn = Type.Object({ name: Type.String(), type: Type.String() });

const Result = {
  type: Type.String({ description: "Postgres's command tag without its counts.", examples: ['SELECT'] }),
  rows: Type.Array(Type.Any({ description: 'An object (or an array with row_mode array).' })),
  row_count: Type.Integer({ description: 'Number of rows, or of affected rows if none are returned.' }),
  columns: Type.Array(ResultColumn),
  truncated: Type.Boolean(),
  affected_rows: Type.Optional(Type.Integer()),
};

export const StatementResult = Type.Object(Result);

export const Warning = Type.Object({
  code: Type.String({ description: 'SQLSTATE.', examples: ['42501'] }),
  message: Type.String(),
  detail: Type.Optional(Type.String()),
  hint: Type.Optional(Type.String()),
});
export type Warning = Static<typeof Warning>;

export const SqlResponse = Type.Object({
  success: Type.Literal(true),
  ...Result,
  results: Type.Optional(Type.Array(StatementResult, { description: 'All results, if several statements ran.' })),
  warnings: Type.Optional(
    Type.Array(Warning, {
      description:
        `Postgres's warnings about the request, only if there are any: the first ${LIMITS.warnings}, each text cut at ` +
        `${LIMITS.warningCharacters} characters. NOTICE and INFO are left out.`,
    }),
  ),
  ...dryRunFields,
});
export type SqlResponse = Static<typeof SqlResponse>;
