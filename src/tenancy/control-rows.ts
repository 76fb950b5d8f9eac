/** Rows of the control database: as JSON of Postgres, and as the service sees them. */
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

/** A row of `cdp.projects` as `to_jsonb` writes it. */
interface ProjectRecord {
  id: string;
  name: string;
  status: string;
  database_name: string;
  schema_name: string;
  writer_role: string;
  reader_role: string;
  server: string;
  schema_version: number;
  quota_bytes: number | null;
  size_bytes: number | null;
  created_at: string;
}

/** A row of `cdp.tokens` as `to_jsonb` writes it. */
interface TokenRecord {
  id: string;
  project_id: string | null;
  name: string;
  scopes: string[];
  /** `\x…`. */
  sha256: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

const date = (value: string | null): Date | null => (value === null ? null : new Date(value));

/** @param json `to_jsonb` of a row of `cdp.projects` */
export function projectRow(json: string): ProjectRow {
  const record = JSON.parse(json) as ProjectRecord;
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
    quotaBytes: record.quota_bytes,
    sizeBytes: record.size_bytes,
    createdAt: new Date(record.created_at),
  };
}

/** @param json `to_jsonb` of a row of `cdp.tokens` */
export function storedToken(json: string): StoredToken {
  const record = JSON.parse(json) as TokenRecord;
  return { ...fieldsOf(record), sha256: Buffer.from(record.sha256.slice(2), 'hex') };
}

/** The same without the hash. */
export const tokenRow = (json: string): TokenRow => fieldsOf(JSON.parse(json) as TokenRecord);

const fieldsOf = (record: TokenRecord): TokenRow => ({
  id: record.id,
  projectId: record.project_id,
  name: record.name,
  scopes: record.scopes,
  createdAt: new Date(record.created_at),
  expiresAt: date(record.expires_at),
  revokedAt: date(record.revoked_at),
  lastUsedAt: date(record.last_used_at),
});
