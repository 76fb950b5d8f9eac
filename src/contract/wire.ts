/**
 * The shapes on the wire (specification section 4, contract sections 1, 2, 5 to 7). They validate requests, make the
 * OpenAPI document and give the static types; no type is written twice. Rules that have an error code of their own
 * (names, column types, cells) are checked by the engine, so the schemas leave them open and say them in words.
 */
import { AUDIT_ACTORS, AUDIT_OPERATIONS } from './audit.js';
import { LIMITS } from './limits.js';
import { NAME_PATTERN, PROJECT_NAME_PATTERN, SCOPES } from './names.js';
import { type Schema, type Static, Type } from './schema.js';

const strict = { additionalProperties: false };

const Nullable = <S extends Schema>(schema: S) => Type.Union([schema, Type.Null()]);

const Comment = Nullable(
  Type.String({ maxLength: LIMITS.commentCharacters, description: 'Description; "" or null for none.' }),
);

const TypeText = Type.String({
  description: 'One of TEXT, INTEGER, FLOAT, BOOLEAN, TIMESTAMP, JSONB, in any case.',
  examples: ['TEXT'],
});

const NameText = (what: string) =>
  Type.String({ description: `Name of the ${what}; matches ${NAME_PATTERN}.`, examples: ['email'] });

// 4.1 Create a table

export const CreateTableBody = Type.Object(
  {
    table_name: NameText('table'),
    columns: Type.Array(
      Type.Object({ name: NameText('column'), type: TypeText, comment: Type.Optional(Comment) }, strict),
      { minItems: 1, maxItems: LIMITS.columnsPerTable },
    ),
    comment: Type.Optional(Comment),
  },
  strict,
);
export type CreateTableBody = Static<typeof CreateTableBody>;

const success = { success: Type.Literal(true), message: Type.String() };

export const CreateTableAnswer = Type.Object({
  ...success,
  table: Type.String(),
  columns: Type.Array(Type.String(), { description: 'Column names, `id` first.' }),
});
export type CreateTableAnswer = Static<typeof CreateTableAnswer>;

// 4.2 Add a column

export const AddColumnBody = Type.Object(
  { name: NameText('column'), type: TypeText, comment: Type.Optional(Comment) },
  strict,
);
export type AddColumnBody = Static<typeof AddColumnBody>;

export const Column = Type.Object({
  name: Type.String(),
  type: Type.String({ description: 'One of the six types, else the name Postgres has for the type.' }),
  comment: Nullable(Type.String()),
});
export type Column = Static<typeof Column>;

export const ColumnAnswer = Type.Object({ ...success, table: Type.String(), column: Column });
export type ColumnAnswer = Static<typeof ColumnAnswer>;

// 4.3 Alter a column

export const AlterColumnBody = Type.Object(
  {
    new_name: Type.Optional(NameText('column')),
    new_type: Type.Optional(TypeText),
    comment: Type.Optional(Comment),
  },
  { ...strict, description: 'At least one of the three.' },
);
export type AlterColumnBody = Static<typeof AlterColumnBody>;

// Reads and drops (contract section 5)

export const Table = Type.Object({
  name: Type.String(),
  kind: Type.Enum(['table', 'view', 'materialized_view', 'foreign_table']),
  comment: Nullable(Type.String()),
  approximate_rows: Nullable(Type.Integer({ description: "By Postgres's statistics; null for a view." })),
  columns: Type.Array(Column),
});
export type Table = Static<typeof Table>;

export const SchemaAnswer = Type.Object({ ...success, tables: Type.Array(Table) });
export type SchemaAnswer = Static<typeof SchemaAnswer>;

export const TableAnswer = Type.Object({ ...success, table: Table });
export type TableAnswer = Static<typeof TableAnswer>;

export const DropTableAnswer = Type.Object({ ...success, table: Type.String() });
export type DropTableAnswer = Static<typeof DropTableAnswer>;

export const DropColumnAnswer = Type.Object({ ...success, table: Type.String(), column: Type.String() });
export type DropColumnAnswer = Static<typeof DropColumnAnswer>;

// 4.4 Batch insert

/** Read by the engine from the bytes as they came, so that no digit is lost; here for the document and the types. */
export const BatchBody = Type.Array(Type.Record(Type.Any(), { description: 'Keys are column names.' }), {
  minItems: 1,
  maxItems: LIMITS.recordsPerBatch,
});
export type BatchBody = Static<typeof BatchBody>;

export const BatchQuery = Type.Object(
  { return: Type.Optional(Type.Literal('ids', { description: 'Also answer the ids, in the order of the records.' })) },
  strict,
);
export type BatchQuery = Static<typeof BatchQuery>;

export const BatchAnswer = Type.Object({
  success: Type.Literal(true),
  inserted_rows: Type.Integer(),
  message: Type.String(),
  ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }))),
});
export type BatchAnswer = Static<typeof BatchAnswer>;

// 4.5 Free SQL

export const SqlBody = Type.Object(
  {
    sql: Type.String({
      minLength: 1,
      description: `1 byte to ${LIMITS.sqlBytes} bytes of UTF-8.`,
      examples: ['SELECT 1'],
    }),
    params: Type.Optional(Type.Array(Type.Any(), { maxItems: 65_535, description: 'Values of $1, $2, …' })),
    read_only: Type.Optional(Type.Boolean({ description: 'Run as the reader, in a READ ONLY transaction.' })),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.timeoutMsMax })),
    max_rows: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.maxRowsMax })),
    row_mode: Type.Optional(Type.Enum(['object', 'array'], { type: 'string' })),
  },
  strict,
);
export type SqlBody = Static<typeof SqlBody>;

const Result = {
  type: Type.String({ description: "Postgres's command tag without its counts.", examples: ['SELECT'] }),
  rows: Type.Array(Type.Any({ description: 'An object (or an array with row_mode array).' })),
  row_count: Type.Integer({ description: 'Number of rows, or of rows affected where none come back.' }),
  columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
  truncated: Type.Boolean(),
  affected_rows: Type.Optional(Type.Integer()),
};

export const SqlAnswer = Type.Object({
  success: Type.Literal(true),
  ...Result,
  results: Type.Optional(
    Type.Array(Type.Object(Result), { description: 'All results, where several statements ran.' }),
  ),
});
export type SqlAnswer = Static<typeof SqlAnswer>;

// Projects and tokens (contract section 2)

export const CreateProjectBody = Type.Object({ name: Type.String({ pattern: PROJECT_NAME_PATTERN }) }, strict);
export type CreateProjectBody = Static<typeof CreateProjectBody>;

export const Project = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  status: Type.String({ examples: ['active', 'inactive'] }),
  quota: Type.String({
    description: 'Disk quota: a size, `default` (what the service is set to) or `none`.',
    examples: ['10GB'],
  }),
  size_bytes: Type.Optional(Type.Integer({ description: 'Bytes on disk; in the list of all projects.' })),
  created_at: Type.String({ format: 'date-time' }),
});
export type Project = Static<typeof Project>;

export const ProjectAnswer = Type.Object({ ...success, project: Project });
export type ProjectAnswer = Static<typeof ProjectAnswer>;

export const RepairAnswer = Type.Object({ ...success, project: Project, repaired: Type.Array(Type.String()) });
export type RepairAnswer = Static<typeof RepairAnswer>;

export const ProjectsAnswer = Type.Object({ ...success, projects: Type.Array(Project) });
export type ProjectsAnswer = Static<typeof ProjectsAnswer>;

export const ProjectQuotaBody = Type.Object(
  { quota: Type.String({ description: 'A size such as `500MB` or `10GB`, `default` or `none`.', examples: ['10GB'] }) },
  strict,
);
export type ProjectQuotaBody = Static<typeof ProjectQuotaBody>;

export const DeleteProjectQuery = Type.Object(
  { confirm: Type.String({ description: 'The name of the project again. Deletion cannot be undone.' }) },
  strict,
);
export type DeleteProjectQuery = Static<typeof DeleteProjectQuery>;

const ScopeText = Type.Enum([...SCOPES]);

const NullableTime = Nullable(Type.String({ format: 'date-time' }));

export const CreateTokenBody = Type.Object(
  {
    name: Type.Optional(Type.String({ maxLength: 200, pattern: '^[^\\u0000]+$' })),
    scopes: Type.Optional(Type.Array(ScopeText, { minItems: 1, description: 'Default: all.' })),
    expires_at: Type.Optional(NullableTime),
  },
  strict,
);
export type CreateTokenBody = Static<typeof CreateTokenBody>;

export const Token = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  scopes: Type.Array(Type.String()),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: NullableTime,
  revoked_at: NullableTime,
  last_used_at: NullableTime,
});
export type Token = Static<typeof Token>;

export const CreateTokenAnswer = Type.Object({
  ...success,
  token: Type.String({ description: 'Shown once; only its hash is stored.' }),
  details: Token,
});
export type CreateTokenAnswer = Static<typeof CreateTokenAnswer>;

export const TokensAnswer = Type.Object({ ...success, tokens: Type.Array(Token) });
export type TokensAnswer = Static<typeof TokensAnswer>;

export const TokenAnswer = Type.Object({ ...success, details: Token });
export type TokenAnswer = Static<typeof TokenAnswer>;

/** What a token may know of itself. */
export const OwnTokenAnswer = Type.Object({
  ...success,
  project: Type.Object({ id: Type.String({ format: 'uuid' }), name: Type.String() }),
  token: Type.Object({
    id: Type.String({ description: 'Of a JWT its subject.' }),
    name: Nullable(Type.String({ description: 'null for a JWT.' })),
    scopes: Type.Array(Type.String()),
  }),
});
export type OwnTokenAnswer = Static<typeof OwnTokenAnswer>;

// The audit log

const AuditId = { pattern: '^[0-9]{1,15}-[0-9]{1,16}$', examples: ['1769851800000-1'] };

export const AuditQuery = Type.Object(
  {
    project: Type.Optional(Type.String({ pattern: PROJECT_NAME_PATTERN })),
    operation: Type.Optional(Type.Enum([...AUDIT_OPERATIONS], { type: 'string' })),
    outcome: Type.Optional(
      Type.String({ pattern: '^[a-z_]{1,40}$', description: '`ok`, a code of an error, or `failed`: all but `ok`.' }),
    ),
    token: Type.Optional(
      Type.String({ pattern: '^[^\\u0000]{1,200}$', description: 'Id of a token, or subject of a JWT.' }),
    ),
    since: Type.Optional(Type.String({ format: 'date-time' })),
    until: Type.Optional(Type.String({ format: 'date-time' })),
    before: Type.Optional(Type.String({ ...AuditId, description: 'Only what is older than the entry of this id.' })),
    limit: Type.Optional(Type.String({ pattern: '^([1-9][0-9]{0,2}|1000)$', description: '1 to 1000; default 100.' })),
  },
  strict,
);
export type AuditQuery = Static<typeof AuditQuery>;

export const AuditEntry = Type.Object({
  id: Type.String({ ...AuditId, description: 'Its place in the log.' }),
  time: Type.String({ format: 'date-time', description: 'When it was over.' }),
  request_id: Nullable(Type.String()),
  project: Nullable(Type.String({ description: 'As it was called then.' })),
  project_id: Nullable(Type.String({ format: 'uuid' })),
  actor: Type.Enum([...AUDIT_ACTORS]),
  actor_id: Nullable(Type.String()),
  actor_name: Nullable(Type.String()),
  address: Nullable(Type.String()),
  operation: Type.String(),
  object: Nullable(Type.String({ description: 'A table, `table.column`, or the id of a token.' })),
  statement_sha256: Nullable(Type.String()),
  statement: Nullable(Type.String({ description: 'Only with the setting `audit-statements` at `text`.' })),
  rows: Nullable(Type.Integer()),
  outcome: Type.String({ description: '`ok`, a code of an error, or `client_gone`.' }),
  status: Nullable(Type.Integer({ description: 'null where no answer was begun.' })),
  duration_ms: Nullable(Type.Number()),
  count: Type.Integer({ description: 'More than 1 where an entry stands for several like it.' }),
});
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditAnswer = Type.Object({
  ...success,
  entries: Type.Array(AuditEntry),
  next: Nullable(Type.String({ description: '`before` of the next page.' })),
});
export type AuditAnswer = Static<typeof AuditAnswer>;

// Failures (contract section 1)

export const ErrorBody = Type.Object({
  success: Type.Literal(false),
  error: Type.String({ description: 'A stable code; see the table of errors.' }),
  message: Type.String(),
  status: Type.Integer(),
  request_id: Type.String(),
  errors: Type.Optional(
    Type.Array(
      Type.Object({
        record: Type.Optional(Type.Integer({ description: "0-based index in the request's array." })),
        column: Type.Optional(Type.String()),
        error: Type.String(),
        message: Type.String(),
        hint: Type.Optional(Type.String()),
      }),
      { maxItems: LIMITS.errorsListed },
    ),
  ),
  error_count: Type.Optional(Type.Integer()),
  hint: Type.Optional(Type.String()),
  postgres: Type.Optional(
    Type.Object({
      sqlstate: Type.String(),
      position: Type.Optional(Type.Integer()),
      table: Type.Optional(Type.String()),
      column: Type.Optional(Type.String()),
      constraint: Type.Optional(Type.String()),
      detail: Type.Optional(Type.String()),
    }),
  ),
});
export type ErrorBody = Static<typeof ErrorBody>;
