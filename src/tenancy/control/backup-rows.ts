/** What the control database knows of backups into folders. The rules are in `backup/folder`. */
import { sql } from '../../pg/index.js';
import type { ControlPool } from './control-pool.js';
import { withDates } from './control-rows.js';

/** Backups into one folder. */
export interface BackupRow {
  readonly folder: string;
  /** The last run. */
  readonly startedAt: Date;
  /** null: it runs, or was killed. */
  readonly endedAt: Date | null;
  /** Why the last run that has ended failed; null: it did not. */
  readonly error: string | null;
  /** The start of the last run that succeeded: what was committed before is in the backup. */
  readonly succeededAt: Date | null;
  /** The size of its projects. */
  readonly bytes: number | null;
}

export class BackupRows {
  constructor(private readonly pool: ControlPool) {}

  /** How often the installation was restored from a backup folder, and 1. */
  async epoch(): Promise<number> {
    const [epoch] = await this.pool.row(sql`SELECT epoch FROM cdp.instance`);
    return Number(epoch);
  }

  async setEpoch(epoch: number): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.instance SET epoch = ${epoch}`);
  }

  async find(folder: string): Promise<BackupRow | null> {
    const [json] = await this.pool.row(
      sql`SELECT jsonb_build_object('folder', folder, 'startedAt', started_at, 'endedAt', ended_at, 'error', error,
            'succeededAt', succeeded_at, 'bytes', bytes)
          FROM cdp.backups WHERE folder = ${folder}`,
    );
    return json == null ? null : (JSON.parse(json, withDates) as BackupRow);
  }

  /** Folders into which a backup has succeeded. */
  async folders(): Promise<string[]> {
    const rows = await this.pool.query(sql`SELECT folder FROM cdp.backups WHERE succeeded_at IS NOT NULL ORDER BY 1`);
    return rows.map(([folder]) => folder ?? '');
  }

  async start(folder: string): Promise<void> {
    await this.pool.query(
      sql`INSERT INTO cdp.backups (folder, started_at) VALUES (${folder}, now())
          ON CONFLICT (folder) DO UPDATE SET started_at = now(), ended_at = NULL`,
    );
  }

  async fail(folder: string, error: string): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.backups SET ended_at = now(), error = ${error} WHERE folder = ${folder}`);
  }

  async succeed(folder: string, bytes: number): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.backups SET ended_at = now(), error = NULL, succeeded_at = started_at, bytes = ${bytes}
          WHERE folder = ${folder}`,
    );
  }

  /** Notes when these projects were saved: at the start of the run. */
  async noteSaved(folder: string, projectIds: readonly string[]): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.projects SET saved_at = (SELECT started_at FROM cdp.backups WHERE folder = ${folder})
          WHERE id = ANY (${projectIds}::uuid[])`,
    );
  }

  /** When each project was last saved, by id. */
  async savedAt(): Promise<Map<string, Date>> {
    const rows = await this.pool.query(
      sql`SELECT id, floor(extract(epoch FROM saved_at) * 1000) FROM cdp.projects WHERE saved_at IS NOT NULL`,
    );
    return new Map(rows.map(([id, ms]) => [id ?? '', new Date(Number(ms))]));
  }
}
