/** Rows of the control database, as they are stored and as the service sees them. */
import { PROJECT_STATUSES, type ProjectStatus } from '../contract/projects.js';
import type { Placement } from './placement.js';

export interface ProjectRow {
  id: string;
  name: string;
  status: ProjectStatus;
  placement: Placement;
  schemaVersion: number;
  /** The project's own disk quota; null: what the setting says, 0: none. */
  quotaBytes: number | null;
  /** Of the database, when the project's own server was last stopped; null: not known, or it is asked. */
  sizeBytes: number | null;
  createdAt: Date;
}

export interface TokenRow {
  id: string;
  /** null for an admin token. */
  projectId: string | null;
  name: string;
  scopes: string[];
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  lastUsedAt: Date | null;
}

/** A token as it is stored: only the hash of it. */
export interface StoredToken extends TokenRow {
  sha256: Buffer;
}

export const PROJECT_COLUMNS = `id, name, status, database_name, schema_name, writer_role, reader_role, server, schema_version, quota_bytes, size_bytes, created_at`;
export const TOKEN_COLUMNS = `id, project_id, name, scopes, created_at, expires_at, revoked_at, last_used_at`;

export interface ProjectRecord {
  id: string;
  name: string;
  status: string;
  database_name: string;
  schema_name: string;
  writer_role: string;
  reader_role: string;
  server: string;
  schema_version: number;
  /** The driver gives a bigint as text, to_jsonb as a number. */
  quota_bytes: string | number | null;
  size_bytes: string | number | null;
  created_at: string | Date;
}

export interface TokenRecord {
  id: string;
  project_id: string | null;
  name: string;
  scopes: string[];
  created_at: string | Date;
  expires_at: string | Date | null;
  revoked_at: string | Date | null;
  last_used_at: string | Date | null;
}

const numberOrNull = (value: string | number | null): number | null => (value === null ? null : Number(value));

const date = (value: string | Date | null): Date | null => (value === null ? null : new Date(value));

export function projectRow(record: ProjectRecord): ProjectRow {
  const status = PROJECT_STATUSES.find((known) => known === record.status);
  if (status === undefined) throw new Error(`Unknown project status ${record.status}`);
  return {
    id: record.id,
    name: record.name,
    status,
    placement: {
      server: record.server,
      database: record.database_name,
      schema: record.schema_name,
      writer: record.writer_role,
      reader: record.reader_role,
    },
    schemaVersion: record.schema_version,
    quotaBytes: numberOrNull(record.quota_bytes),
    sizeBytes: numberOrNull(record.size_bytes),
    createdAt: new Date(record.created_at),
  };
}

export function tokenRow(record: TokenRecord): TokenRow {
  return {
    id: record.id,
    projectId: record.project_id,
    name: record.name,
    scopes: record.scopes,
    createdAt: new Date(record.created_at),
    expiresAt: date(record.expires_at),
    revokedAt: date(record.revoked_at),
    lastUsedAt: date(record.last_used_at),
  };
}
