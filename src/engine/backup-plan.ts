/** When the service saves the installation into a folder (settings `backup-to` and `backup-at`), and whether that works. */
import { Cron } from 'croner';
import type { BackupRow } from '../tenancy/control/backup-rows.js';
import type { ControlDatabase } from '../tenancy/control/control.js';

/** The state of the backups into the folder of the setting. */
export interface BackupState {
  readonly folder: string;
  /** The last run; null: there was none. */
  readonly last: BackupRow | null;
  /** Since the start of the last run that succeeded; null: none has. */
  readonly ageSeconds: number | null;
  /** Two scheduled times have passed without a backup that succeeded. */
  readonly isOverdue: boolean;
}

export class BackupPlan {
  private readonly openedAt = new Date();
  private readonly schedule: Cron;

  /** @param at in cron's format */
  constructor(
    private readonly control: ControlDatabase,
    readonly folder: string,
    at: string,
  ) {
    this.schedule = new Cron(at, { paused: true });
  }

  /** Whether a scheduled time has passed since. @param lastStart null: there was no backup yet */
  isDue(lastStart: Date | null): boolean {
    const now = new Date();
    // A clock that was set back must not put off the next backup.
    const since = lastStart === null ? this.openedAt : lastStart > now ? now : lastStart;
    const next = this.schedule.nextRun(since);
    return next !== null && next <= now;
  }

  /** The next scheduled time; null: none. */
  get next(): Date | null {
    return this.schedule.nextRun();
  }

  /** @throws EngineError database_unavailable */
  async state(): Promise<BackupState> {
    const last = await this.control.backups.find(this.folder);
    const succeededAt = last?.succeededAt ?? null;
    const [, secondLast] = this.schedule.previousRuns(2);
    return {
      folder: this.folder,
      last,
      ageSeconds: succeededAt === null ? null : Math.max(0, (Date.now() - succeededAt.getTime()) / 1_000),
      isOverdue: secondLast !== undefined && (succeededAt ?? this.openedAt) < secondLast,
    };
  }
}
