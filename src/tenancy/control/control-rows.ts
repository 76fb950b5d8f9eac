/** Rows of the control database, which it returns as JSON. */
import type { ProjectStatus } from '../../contract/projects.js';
import type { Consistency } from '../../contract/servers.js';
import type { FeedSettings } from '../../contract/wire/changes.js';
import type { EventSettings } from '../../contract/wire/events.js';
import type { TokenLimits } from '../../contract/wire/token-limits.js';
import { trusted } from '../../pg/index.js';
import type { Placement } from '../placement.js';

export interface ProjectRow {
  id: string;
  name: string;
  status: ProjectStatus;
  placement: Placement;
  /** The replicas of its server: references to their URLs, and the default consistency of reads; null: it has none. */
  replicas: { readonly references: readonly string[]; readonly consistency: Consistency } | null;
  schemaVersion: number;
  /** The project's own disk quota; null: the setting, 0: none. */
  quotaBytes: number | null;
  /** How it takes events of the tracking API; null: it takes none. */
  events: EventSettings | null;
  /** Its feed of changes; null: it has none. */
  feed: FeedSettings | null;
  /** Whether the project is being moved, and accepts no writes. */
  isFenced: boolean;
  /** The size of its database when its embedded server was last stopped; null: unknown, or measured on demand. */
  sizeBytes: number | null;
  createdAt: Date;
}

export interface TokenRow {
  id: string;
  /** null for an admin token. */
  projectId: string | null;
  name: string;
  scopes: string[];
  /** The role that it acts as, one that the project has made; null: its scopes decide. */
  role: string | null;
  /** null: nothing narrows it but its scopes. */
  limits: TokenLimits | null;
  createdAt: Date;
  /** The actor of the audit log, with its name; null: an earlier version created it. */
  createdBy: string | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  lastUsedAt: Date | null;
}

/** A token as stored: only its hash, in hexadecimal. */
export interface StoredToken extends TokenRow {
  sha256: string;
}

/** The member `added` of a {@link Placement}: an added server, or null. @param server SQL for its name */
export const addedServerJson = (server: string): string =>
  `(SELECT jsonb_build_object('urlReference', url_reference,
      'addedAt', floor(extract(epoch FROM servers.created_at) * 1000), 'engine', engine, 'maxConnections', max_connections)
    FROM cdp.servers WHERE servers.name = ${server} AND url_reference IS NOT NULL)`;

/** A row of `cdp.projects` as the JSON of a {@link ProjectRow}. */
export const PROJECT_JSON = trusted(`jsonb_build_object('id', projects.id, 'name', projects.name, 'status', status,
  'placement', jsonb_build_object('server', server, 'added',
    ${addedServerJson('projects.server')},
    'database', database_name, 'schema', schema_name,
    'writer', writer_role, 'reader', reader_role, 'ownSchemas', own_schemas),
  'replicas', (SELECT jsonb_build_object('references', replicas, 'consistency', consistency)
    FROM cdp.servers WHERE servers.name = projects.server AND replicas <> '[]'),
  'schemaVersion', schema_version, 'quotaBytes', quota_bytes, 'sizeBytes', size_bytes, 'events', events, 'feed', feed,
  'isFenced', is_fenced,
  'createdAt', projects.created_at)`);

/** A row of `cdp.tokens` as the JSON of a {@link TokenRow}. */
export const TOKEN_JSON = trusted(`jsonb_build_object('id', tokens.id, 'projectId', project_id, 'name', tokens.name,
  'scopes', scopes, 'role', role, 'limits', limits, 'createdAt', tokens.created_at, 'createdBy', created_by, 'expiresAt', expires_at, 'revokedAt', revoked_at,
  'lastUsedAt', last_used_at)`);

/** Reads {@link PROJECT_JSON}. */
export const projectRow = (json: string): ProjectRow => JSON.parse(json, withDates) as ProjectRow;

/** Reads {@link TOKEN_JSON}. */
export const tokenRow = (json: string): TokenRow => JSON.parse(json, withDates) as TokenRow;

/** A JSON reviver that turns times into Dates, except the time at which a server was added, which is a number. */
export const withDates = (key: string, value: unknown): unknown =>
  key.endsWith('At') && typeof value === 'string' ? new Date(value) : value;
