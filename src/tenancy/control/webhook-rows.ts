/** The tables `cdp.webhooks` and `cdp.webhook_deliveries` of the control database. What webhooks do is in `feed/webhooks/`. */
import { WEBHOOK_LIMITS } from '../../contract/wire/webhooks.js';
import type { ChangeOperation } from '../../contract/wire/changes.js';
import { type Fragment, join, sql } from '../../pg/index.js';
import type { AuditRow } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';
import { PROJECT_JSON, type ProjectRow } from './control-rows.js';

/** null: all. */
export interface WebhookFilter {
  readonly tables: readonly string[] | null;
  readonly ops: readonly ChangeOperation[] | null;
  readonly columns: readonly string[] | null;
}

export interface WebhookRow extends WebhookFilter {
  readonly id: string;
  readonly url: string;
  readonly readsAs: 'writer' | 'reader';
  readonly isPaused: boolean;
  /** Why the service has paused it; null: a person has, or it is active. */
  readonly reason: string | null;
  readonly cursor: string;
  readonly attempts: number;
  readonly failingSince: Date | null;
  readonly retryAt: Date | null;
  readonly error: string | null;
  readonly deliveredAt: Date | null;
  /** null: no previous secret is valid. */
  readonly previousUntil: Date | null;
  readonly createdAt: Date;
}

/** What a delivery needs. */
export interface LiveWebhook extends WebhookRow {
  /** Sealed. */
  readonly secret: string;
  readonly previousSecret: string | null;
  /** The cursor of the last change of the delivery that is tried; null: there is none. */
  readonly pending: string | null;
  readonly generation: number;
  /** By the clock of the database: until the next attempt, and since the first that failed. */
  readonly retryInMs: number;
  readonly failingForMs: number;
  readonly project: ProjectRow;
}

export type NewWebhook = WebhookFilter &
  Pick<WebhookRow, 'id' | 'url' | 'readsAs' | 'cursor'> & { readonly secret: string };

/** What people change. */
export type WebhookChange = Partial<
  WebhookFilter & Pick<WebhookRow, 'url' | 'readsAs' | 'isPaused' | 'cursor'> & { readonly secret: string }
>;

export interface Attempt {
  readonly messageId: string;
  readonly attempt: number;
  readonly changes: number;
  /** null: no answer. */
  readonly status: number | null;
  /** null: it is confirmed. */
  readonly error: string | null;
  readonly durationMs: number;
}

export type DeliveryRow = Attempt & { readonly at: Date };

const WEBHOOK_JSON = sql`jsonb_build_object('id', w.id, 'url', url, 'tables', tables, 'ops', ops, 'columns', columns,
  'readsAs', reads_as, 'isPaused', is_paused, 'reason', reason, 'cursor', cursor, 'attempts', attempts,
  'failingSince', failing_since, 'retryAt', CASE WHEN retry_at > now() THEN retry_at END, 'error', error,
  'deliveredAt', delivered_at, 'previousUntil', CASE WHEN previous_until > now() THEN previous_until END,
  'createdAt', w.created_at)`;

const LIVE_JSON = sql`${WEBHOOK_JSON} || jsonb_build_object('secret', secret,
  'previousSecret', CASE WHEN previous_until > now() THEN previous_secret END, 'pending', pending, 'generation', generation,
  'retryInMs', greatest(0, coalesce(ceil(extract(epoch FROM retry_at - now()) * 1000), 0)),
  'failingForMs', coalesce(ceil(extract(epoch FROM now() - failing_since) * 1000), 0), 'project', ${PROJECT_JSON})`;

const withTimes = (key: string, value: unknown): unknown =>
  /(At|^at|Since|Until)$/.test(key) && typeof value === 'string' ? new Date(value) : value;

const webhookRow = (json: string | null | undefined): WebhookRow => JSON.parse(json ?? '', withTimes) as WebhookRow;

/** Nothing is tried or has failed. */
const ANEW = sql`pending = NULL, attempts = 0, failing_since = NULL, retry_at = NULL, error = NULL`;

export class WebhookRows {
  constructor(private readonly pool: ControlPool) {}

  /** The oldest first. */
  async list(projectId: string): Promise<WebhookRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${WEBHOOK_JSON} FROM cdp.webhooks w WHERE project_id = ${projectId} ORDER BY created_at, id`,
    );
    return rows.map(([json]) => webhookRow(json));
  }

  async find(projectId: string, id: string): Promise<WebhookRow | null> {
    const [json] = await this.pool.row(
      sql`SELECT ${WEBHOOK_JSON} FROM cdp.webhooks w WHERE project_id = ${projectId} AND id = ${id}`,
    );
    return json == null ? null : webhookRow(json);
  }

  /** Of all projects. */
  async states(): Promise<{ id: string; isPaused: boolean; isStopped: boolean; isFailing: boolean }[]> {
    const rows = await this.pool.query(
      sql`SELECT id, is_paused, is_paused AND reason IS NOT NULL, attempts > 0 FROM cdp.webhooks`,
    );
    return rows.map(([id, ...flags]) => {
      const [isPaused, isStopped, isFailing] = flags.map((flag) => flag === 't');
      return {
        id: id ?? '',
        isPaused: isPaused === true,
        isStopped: isStopped === true,
        isFailing: isFailing === true,
      };
    });
  }

  /** @returns null if it is deleted, or its project */
  async live(id: string): Promise<LiveWebhook | null> {
    const [json] = await this.pool.row(
      sql`SELECT ${LIVE_JSON} FROM cdp.webhooks w JOIN cdp.projects ON projects.id = w.project_id WHERE w.id = ${id}`,
    );
    return json == null ? null : (JSON.parse(json, withTimes) as LiveWebhook);
  }

  // Changes by people

  /** @returns null if the project is no longer there, or has as many as it may have */
  async insert(
    projectId: string,
    { id, url, tables, ops, columns, readsAs, secret, cursor }: NewWebhook,
    entry: AuditRow | null,
  ): Promise<WebhookRow | null> {
    const rows = await this.pool.change(
      sql`INSERT INTO cdp.webhooks AS w (id, project_id, url, tables, ops, columns, reads_as, secret, cursor)
          SELECT ${id}::uuid, ${projectId}::uuid, ${url}, ${tables}::text[], ${ops}::text[], ${columns}::text[], ${readsAs}, ${secret}, ${cursor}
          WHERE EXISTS (SELECT FROM cdp.projects WHERE id = ${projectId}::uuid FOR KEY SHARE)
            AND (SELECT count(*) FROM cdp.webhooks WHERE project_id = ${projectId}::uuid) < ${WEBHOOK_LIMITS.perProject}
          RETURNING project_id, ${WEBHOOK_JSON}`,
      entry,
    );
    return rows[0] === undefined ? null : webhookRow(rows[0][1]);
  }

  /** What is tried begins anew. @returns null if there is none */
  async change(
    projectId: string,
    id: string,
    { url, tables, ops, columns, readsAs, isPaused, cursor, secret }: WebhookChange,
    entry: AuditRow | null,
    previousHours = 0,
  ): Promise<WebhookRow | null> {
    const set: Fragment[] = [sql`generation = generation + 1`, ANEW];
    if (url !== undefined) set.push(sql`url = ${url}`);
    if (tables !== undefined) set.push(sql`tables = ${tables}::text[]`);
    if (ops !== undefined) set.push(sql`ops = ${ops}::text[]`);
    if (columns !== undefined) set.push(sql`columns = ${columns}::text[]`);
    if (readsAs !== undefined) set.push(sql`reads_as = ${readsAs}`);
    if (isPaused !== undefined) set.push(sql`is_paused = ${isPaused}, reason = NULL`);
    if (cursor !== undefined) set.push(sql`cursor = ${cursor}`);
    if (secret !== undefined) {
      const until = sql`now() + make_interval(hours => ${previousHours}::integer)`;
      set.push(sql`secret = ${secret}, previous_secret = secret, previous_until = ${until}`);
    }
    const [row] = await this.pool.change(
      sql`UPDATE cdp.webhooks w SET ${join(set)} WHERE project_id = ${projectId} AND id = ${id}
          RETURNING project_id, ${WEBHOOK_JSON}`,
      entry,
    );
    return row === undefined ? null : webhookRow(row[1]);
  }

  /** @returns whether it was there */
  async delete(projectId: string, id: string, entry: AuditRow | null): Promise<boolean> {
    const rows = await this.pool.change(
      sql`DELETE FROM cdp.webhooks WHERE project_id = ${projectId} AND id = ${id} RETURNING project_id`,
      entry,
    );
    return rows.length === 1;
  }

  /** The newest first. */
  async deliveries(id: string): Promise<DeliveryRow[]> {
    const rows = await this.pool.query(
      sql`SELECT jsonb_build_object('at', at, 'messageId', message_id, 'attempt', attempt, 'changes', changes,
            'status', status, 'error', error, 'durationMs', duration_ms)
          FROM cdp.webhook_deliveries WHERE webhook_id = ${id} ORDER BY number DESC`,
    );
    return rows.map(([json]) => JSON.parse(json ?? '', withTimes) as DeliveryRow);
  }

  // What deliveries change: nothing, if a person has changed the webhook since it was read

  /** Stores how far it is, though nothing was to be sent. */
  async passed({ id, generation }: LiveWebhook, cursor: string): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.webhooks SET cursor = ${cursor} WHERE id = ${id} AND generation = ${generation} AND pending IS NULL`,
    );
  }

  /** Before the first attempt of a delivery. @returns false if it may not be sent */
  async begin({ id, generation }: LiveWebhook, pending: string): Promise<boolean> {
    const rows = await this.pool.query(
      sql`UPDATE cdp.webhooks SET pending = ${pending}
          WHERE id = ${id} AND generation = ${generation} AND NOT is_paused RETURNING id`,
    );
    return rows.length === 1;
  }

  async confirmed(webhook: LiveWebhook, cursor: string, attempt: Attempt): Promise<void> {
    await this.note(webhook, sql`cursor = ${cursor}, delivered_at = now(), ${ANEW}`, attempt);
  }

  /** @param reason why it is paused now; null: it is tried again after the time */
  async failed(webhook: LiveWebhook, attempt: Attempt, retryMs: number, reason: string | null): Promise<void> {
    const paused = reason === null ? sql`` : sql`, is_paused = true, reason = ${reason}`;
    const set = sql`attempts = attempts + 1, failing_since = coalesce(failing_since, now()), error = ${attempt.error},
      retry_at = now() + make_interval(secs => ${retryMs}::float8 / 1000)${paused}`;
    await this.note(webhook, set, attempt);
  }

  /** @returns whether it is paused by this */
  async pause({ id, generation }: LiveWebhook, reason: string): Promise<boolean> {
    const rows = await this.pool.query(
      sql`UPDATE cdp.webhooks SET is_paused = true, reason = ${reason}
          WHERE id = ${id} AND generation = ${generation} AND NOT is_paused RETURNING id`,
    );
    return rows.length === 1;
  }

  private async note({ id, generation }: LiveWebhook, set: Fragment, attempt: Attempt): Promise<void> {
    const { messageId, attempt: number, changes, status, error, durationMs } = attempt;
    await this.pool.query(
      sql`WITH noted AS (UPDATE cdp.webhooks SET deliveries = deliveries + 1, ${set}
            WHERE id = ${id} AND generation = ${generation} RETURNING id, deliveries)
          INSERT INTO cdp.webhook_deliveries AS d
            (webhook_id, place, number, at, message_id, attempt, changes, status, error, duration_ms)
          SELECT id, deliveries % ${WEBHOOK_LIMITS.deliveries}, deliveries, now(), ${messageId}, ${number}::integer, ${changes}::integer,
            ${status}::integer, ${error}, ${durationMs}::integer
          FROM noted
          ON CONFLICT (webhook_id, place) DO UPDATE SET (number, at, message_id, attempt, changes, status, error, duration_ms) =
            (excluded.number, excluded.at, excluded.message_id, excluded.attempt, excluded.changes, excluded.status, excluded.error,
              excluded.duration_ms)`,
    );
  }
}
