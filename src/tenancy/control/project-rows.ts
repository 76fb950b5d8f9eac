/** The table `cdp.projects` of the control database. The rules of projects are in `engine/projects`. */
import type { ProjectStatus } from '../../contract/projects.js';
import { serverName } from '../../contract/servers.js';
import type { FeedSettings } from '../../contract/wire/changes.js';
import type { EventSettings } from '../../contract/wire/events.js';
import { BEGIN, COMMIT, type Fragment, ident, sql } from '../../pg/index.js';
import type { Placement } from '../placement.js';
import { type AuditRow, withEntry } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';
import { PROJECT_JSON, projectRow, type ProjectRow, type StoredToken } from './control-rows.js';
import type { RoleRow } from './role-rows.js';
import { ACCEPTS_PROJECT } from './server-rows.js';

export class ProjectRows {
  constructor(private readonly pool: ControlPool) {}

  /**
   * Projects are counted and added one at a time per server, so that none exceeds its limit.
   * @returns null if it is inserted; otherwise the obstacle: a project of that name, in any status, or the server
   */
  async insert(
    project: Omit<ProjectRow, 'replicas' | 'quotaBytes' | 'sizeBytes' | 'events' | 'feed' | 'isFenced' | 'createdAt'>,
  ): Promise<'name' | 'server' | null> {
    const { id, name, status, schemaVersion } = project;
    const { server, database, schema, writer, reader, ownSchemas } = project.placement;
    const onServer = serverName(project.placement);
    const results = await this.pool.run([
      BEGIN,
      sql`SELECT FROM cdp.servers WHERE name = ${onServer} FOR UPDATE`,
      sql`SELECT FROM cdp.servers WHERE name = ${onServer} AND ${ACCEPTS_PROJECT}`,
      sql`INSERT INTO cdp.projects
            (id, name, status, server, database_name, schema_name, writer_role, reader_role, own_schemas, schema_version)
          SELECT ${id}, ${name}, ${status}, ${server}, ${database}, ${schema}, ${writer}, ${reader}, ${ownSchemas}::boolean, ${schemaVersion}::integer
          WHERE EXISTS (SELECT FROM cdp.servers WHERE name = ${onServer} AND ${ACCEPTS_PROJECT})
          ON CONFLICT (name) DO NOTHING RETURNING id`,
      COMMIT,
    ]);
    if (results[3]?.rows.length === 1) return null;
    return results[2]?.rows.length === 1 ? 'name' : 'server';
  }

  list(): Promise<ProjectRow[]> {
    return this.select(sql`ORDER BY name`);
  }

  /** `server`: the project on this embedded server. */
  async find(column: 'id' | 'name' | 'server', value: string): Promise<ProjectRow | null> {
    const [project] = await this.select(sql`WHERE ${ident(column)} = ${value}`);
    return project ?? null;
  }

  /** The project that lives there. */
  async at({ server, database }: Pick<Placement, 'server' | 'database'>): Promise<ProjectRow | null> {
    const [project] = await this.select(sql`WHERE server = ${server} AND database_name = ${database}`);
    return project ?? null;
  }

  private async select(which: Fragment): Promise<ProjectRow[]> {
    const rows = await this.pool.query(sql`SELECT ${PROJECT_JSON} FROM cdp.projects ${which}`);
    return rows.map(([json]) => projectRow(json ?? ''));
  }

  /** @returns false if the project is no longer in one of the statuses `from` */
  async setStatus(
    id: string,
    from: readonly ProjectStatus[],
    to: ProjectStatus,
    entry: AuditRow | null,
  ): Promise<boolean> {
    const rows = await this.pool.change(
      sql`UPDATE cdp.projects SET status = ${to} WHERE id = ${id} AND status = ANY (${from}) RETURNING id AS project_id`,
      entry,
    );
    return rows.length === 1;
  }

  /** @returns null if another project has that name, and as {@link update} */
  rename(id: string, name: string, entry: AuditRow | null): Promise<ProjectRow | null> {
    const isFree = sql`NOT EXISTS (SELECT FROM cdp.projects WHERE name = ${name} AND id <> ${id})`;
    return this.update(sql`name = ${name}`, sql`id = ${id} AND ${isFree}`, entry);
  }

  /** See `Projects.replace`. @returns false if one of them is no longer there */
  async replace(old: ProjectRow, restoredId: string, kept: string, entry: AuditRow | null): Promise<boolean> {
    const { id, name, status } = old;
    const areReady = sql`(SELECT count(*) FROM cdp.projects WHERE id IN (${id}, ${restoredId})
      AND status IN ('active', 'inactive')) = 2`;
    const results = await this.pool.transaction([
      BEGIN,
      sql`SELECT FROM cdp.projects WHERE id IN (${id}, ${restoredId}) FOR UPDATE`,
      sql`UPDATE cdp.projects SET name = ${kept}, status = 'inactive' WHERE id = ${id} AND ${areReady}`,
      sql`UPDATE cdp.projects restored SET name = ${name}, status = ${status}, created_at = old.created_at,
            quota_bytes = old.quota_bytes, own_schemas = restored.own_schemas AND old.own_schemas, events = old.events, feed = old.feed
          FROM cdp.projects old WHERE restored.id = ${restoredId} AND old.id = ${id} AND ${areReady}`,
      sql`UPDATE cdp.tokens SET project_id = ${restoredId} WHERE project_id = ${id} AND ${areReady}`,
      sql`INSERT INTO cdp.roles (project_id, name, comment, created_at)
          SELECT ${restoredId}::uuid, name, comment, created_at FROM cdp.roles WHERE project_id = ${id} AND ${areReady}
          ON CONFLICT DO NOTHING`,
      sql`UPDATE cdp.schedules SET project_id = ${restoredId} WHERE project_id = ${id} AND ${areReady}`,
      sql`UPDATE cdp.webhooks SET project_id = ${restoredId} WHERE project_id = ${id} AND ${areReady}`,
      sql`UPDATE cdp.queries SET project_id = ${restoredId} WHERE project_id = ${id} AND ${areReady}`,
      sql`UPDATE cdp.projects restored SET lineage = coalesce(old.lineage, old.id)
          FROM cdp.projects old WHERE restored.id = ${restoredId} AND old.id = ${id} AND ${areReady}`,
      sql`INSERT INTO cdp.subjects (project_id, declaration, declared_at)
          SELECT ${restoredId}::uuid, declaration, declared_at FROM cdp.subjects WHERE project_id = ${id} AND ${areReady}
          ON CONFLICT (project_id) DO UPDATE SET declaration = excluded.declaration, declared_at = excluded.declared_at`,
      withEntry(sql`SELECT id AS project_id FROM cdp.projects WHERE id = ${restoredId} AND name = ${name}`, entry),
      COMMIT,
    ]);
    return results.at(-2)?.rows.length === 1;
  }

  setQuota(id: string, quotaBytes: number | null, entry: AuditRow | null): Promise<ProjectRow | null> {
    return this.update(sql`quota_bytes = ${quotaBytes}`, sql`id = ${id}`, entry);
  }

  /** @param events null: it takes none */
  setEvents(id: string, events: EventSettings | null, entry: AuditRow | null): Promise<ProjectRow | null> {
    return this.update(sql`events = ${events && JSON.stringify(events)}::jsonb`, sql`id = ${id}`, entry);
  }

  /** @param feed null: it has none */
  setFeed(id: string, feed: FeedSettings | null, entry: AuditRow | null): Promise<ProjectRow | null> {
    return this.update(sql`feed = ${feed && JSON.stringify(feed)}::jsonb`, sql`id = ${id}`, entry);
  }

  setOwnSchemas(id: string, allowed: boolean, entry: AuditRow | null): Promise<ProjectRow | null> {
    return this.update(sql`own_schemas = ${allowed}`, sql`id = ${id}`, entry);
  }

  /** @returns the changed project; null if it is not ready, or no longer there */
  private async update(set: Fragment, where: Fragment, entry: AuditRow | null): Promise<ProjectRow | null> {
    const [row] = await this.pool.change(
      sql`UPDATE cdp.projects SET ${set} WHERE ${where} AND status IN ('active', 'inactive')
          RETURNING id AS project_id, ${PROJECT_JSON}`,
      entry,
    );
    return row?.[1] == null ? null : projectRow(row[1]);
  }

  async setVersion(id: string, version: number): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.projects SET schema_version = ${version} WHERE id = ${id}`);
  }

  /** Stores the size of a project whose embedded server is about to be stopped. @param bytes null: it is in use */
  async setSize(server: string, bytes: number | null): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.projects SET size_bytes = ${bytes} WHERE server = ${server}`);
  }

  async delete(id: string, entry: AuditRow | null): Promise<void> {
    await this.pool.change(sql`DELETE FROM cdp.projects WHERE id = ${id} RETURNING id AS project_id`, entry);
  }

  /** Sets the properties that a restored project had before. It may create schemas only if its server allows that. */
  async adoptHistory(
    id: string,
    {
      createdAt,
      quotaBytes,
      ownSchemas,
      events,
      feed,
      roles,
    }: Pick<ProjectRow, 'createdAt' | 'quotaBytes' | 'events' | 'feed'> & {
      ownSchemas: boolean;
      roles: readonly RoleRow[];
    },
    tokens: readonly StoredToken[],
  ): Promise<void> {
    await this.pool.query(
      sql`WITH project AS (UPDATE cdp.projects SET created_at = ${createdAt}, quota_bytes = ${quotaBytes},
              own_schemas = own_schemas AND ${ownSchemas}, events = ${events && JSON.stringify(events)}::jsonb,
              feed = ${feed && JSON.stringify(feed)}::jsonb
            WHERE id = ${id} AND status = 'creating' RETURNING id),
          made AS (INSERT INTO cdp.roles (project_id, name, comment, created_at)
            SELECT project.id, r.name, r.comment, r."createdAt" FROM project,
              jsonb_to_recordset(${JSON.stringify(roles)}) AS r (name text, comment text, "createdAt" timestamptz))
          INSERT INTO cdp.tokens (id, project_id, name, scopes, role, limits, sha256, created_at, created_by, expires_at, revoked_at,
            last_used_at)
          SELECT t.id, project.id, t.name, t.scopes, t.role, t.limits, decode(t.sha256, 'hex'), t."createdAt", t."createdBy", t."expiresAt",
            t."revokedAt", t."lastUsedAt"
          FROM project, jsonb_to_recordset(${JSON.stringify(tokens)}) AS t (id uuid, name text, scopes text[], role text, limits jsonb, sha256 text,
            "createdAt" timestamptz, "createdBy" text, "expiresAt" timestamptz, "revokedAt" timestamptz, "lastUsedAt" timestamptz)`,
    );
  }
}
