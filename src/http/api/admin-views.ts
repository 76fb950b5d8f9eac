/** Projects, tokens and the audit log as the admin API shows them. */
import { parseQuota, quotaText } from '../../contract/disk-size.js';
import { EngineError } from '../../contract/errors.js';
import type * as audit from '../../contract/wire/audit.js';
import type * as wire from '../../contract/wire/projects.js';
import type { AuditEntry } from '../../tenancy/audit-rows.js';
import type { ProjectRow, TokenRow } from '../../tenancy/control-rows.js';

/**
 * Bytes of a quota as it is written here and on the command line: null for `default`, 0 for `none`.
 * @throws EngineError invalid_request
 */
export function quotaBytes(text: string): number | null {
  if (text === 'default') return null;
  if (text === 'none') return 0;
  try {
    return parseQuota(text);
  } catch (error) {
    throw new EngineError('invalid_request', `"quota" is "default", "none" or a size: ${(error as Error).message}`);
  }
}

const shownQuota = (bytes: number | null): string =>
  bytes === null ? 'default' : bytes === 0 ? 'none' : quotaText(bytes);

/** Names of databases and roles stay inside. @param size bytes on disk, where they were looked at */
export const shownProject = (
  { id, name, status, quotaBytes: quota, createdAt }: ProjectRow,
  size?: number,
): wire.Project => ({
  id,
  name,
  status,
  quota: shownQuota(quota),
  ...(size === undefined ? {} : { size_bytes: size }),
  created_at: createdAt.toISOString(),
});

export const shownToken = (token: TokenRow): wire.Token => ({
  id: token.id,
  name: token.name,
  scopes: token.scopes,
  created_at: token.createdAt.toISOString(),
  expires_at: token.expiresAt?.toISOString() ?? null,
  revoked_at: token.revokedAt?.toISOString() ?? null,
  last_used_at: token.lastUsedAt?.toISOString() ?? null,
});

/** Its `id` is its place in the log, which `before` takes. */
export const shownEntry = (entry: AuditEntry): audit.AuditEntry => ({
  id: `${entry.at}-${entry.id}`,
  time: new Date(entry.at).toISOString(),
  request_id: entry.requestId,
  project: entry.project,
  project_id: entry.projectId,
  actor: entry.actor,
  actor_id: entry.actorId,
  actor_name: entry.actorName,
  address: entry.address,
  operation: entry.operation,
  object: entry.object,
  statement_sha256: entry.statementSha256,
  statement: entry.statement,
  rows: entry.rows,
  outcome: entry.outcome,
  status: entry.status,
  duration_ms: entry.durationMs,
  count: entry.count,
});
