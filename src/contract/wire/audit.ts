/** The audit log on the wire. */
import { AUDIT_ACTORS } from '../audit.js';
import { PROJECT_NAME_PATTERN } from '../names.js';
import { AUDIT_ID, CODE, PAGE_LIMIT, SHORT_TEXT } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './fields.js';

const AuditId = { pattern: AUDIT_ID, examples: ['1769851800000-1'] };

/** @param words those that an entry can have as its `operation` */
export const auditQuery = (words: readonly string[]) =>
  Type.Object(
    {
      project: Type.Optional(Type.String({ pattern: PROJECT_NAME_PATTERN })),
      operation: Type.Optional(Type.Enum(words)),
      outcome: Type.Optional(
        Type.String({
          pattern: CODE,
          description: '`ok`, an error code, or `failed` for everything but `ok`.',
        }),
      ),
      token: Type.Optional(
        Type.String({ pattern: SHORT_TEXT, description: 'The id of a token, or the subject of a JWT.' }),
      ),
      since: Type.Optional(Type.String({ format: 'date-time' })),
      until: Type.Optional(Type.String({ format: 'date-time' })),
      changes: Type.Optional(
        Type.Enum(['true', 'false'], {
          description: 'If `true`, only what the setting `audit: changes` records, and what failed.',
        }),
      ),
      before: Type.Optional(Type.String({ ...AuditId, description: 'Only entries older than the one with this id.' })),
      limit: Type.Optional(Type.String({ pattern: PAGE_LIMIT, description: '1 to 1000; default 100.' })),
    },
    STRICT,
  );
export type AuditQuery = Static<ReturnType<typeof auditQuery>>;

export const AuditEntry = Type.Object({
  id: Type.String({ ...AuditId, description: 'The position of the entry in the log.' }),
  time: Type.String({ format: 'date-time', description: 'When the operation ended.' }),
  request_id: Type.Nullable(Type.String()),
  project: Type.Nullable(Type.String({ description: 'The name it had at the time.' })),
  project_id: Type.Nullable(Type.String({ format: 'uuid' })),
  actor: Type.Enum(AUDIT_ACTORS),
  actor_id: Type.Nullable(Type.String()),
  actor_name: Type.Nullable(Type.String()),
  address: Type.Nullable(Type.String()),
  operation: Type.String(),
  object: Type.Nullable(Type.String({ description: 'A table, `table.column`, or the id of a token.' })),
  statement_sha256: Type.Nullable(
    Type.String({
      description:
        '`hmac:` and HMAC-SHA-256 of the statement under a key of the installation, in hexadecimal; in entries of earlier versions, plain SHA-256.',
    }),
  ),
  statement: Type.Nullable(Type.String({ description: 'Only if the setting `audit-statements` is `text`.' })),
  rows: Type.Nullable(Type.Integer()),
  outcome: Type.String({ description: '`ok`, an error code, or `client_gone`.' }),
  status: Type.Nullable(Type.Integer({ description: 'null if no response was sent.' })),
  duration_ms: Type.Nullable(Type.Number()),
  count: Type.Integer({ description: 'More than 1 if the entry stands for several equal ones.' }),
});
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditResponse = Type.Object({
  ...success,
  entries: Type.Array(AuditEntry),
  next: Type.Nullable(Type.String({ description: 'Send it as `before` to get the next page.' })),
});
export type AuditResponse = Static<typeof AuditResponse>;
