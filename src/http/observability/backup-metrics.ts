/** Metrics of the service's own backups (setting `backup-to`), and of archives of projects' write-ahead logs. */
import { Gauge, type Registry } from 'prom-client';
import type { BackupState } from '../../engine/backup-plan.js';
import type { Engine } from '../../engine/engine.js';
import { singleFlight } from '../../promises.js';
import { series } from './server-metrics.js';

export function backupMetrics({ archiveWatch, backupPlan, serversFolder }: Engine, registers: Registry[]): void {
  const gauge = (name: string, help: string, value: () => number | null | Promise<number | null>) =>
    series(registers, Gauge, name, help, [], async () => {
      const now = await value();
      return now === null ? [] : [[{}, now]];
    });
  if (serversFolder !== null) {
    const states = () => [...archiveWatch.states.values()];
    gauge(
      'cdp_projects_archived',
      'Projects whose write-ahead log is archived, at the last check.',
      () => states().length,
    );
    const failingHelp = 'Projects whose write-ahead log should be archived, and is not, at the last check.';
    gauge('cdp_archives_failing', failingHelp, () => archiveWatch.failing.length);
    const waitingHelp = 'Complete segments of write-ahead log that are not archived yet, at the last check.';
    gauge('cdp_archive_waiting_segments', waitingHelp, () => states().reduce((sum, { waiting }) => sum + waiting, 0));
    const oldestHelp = 'Age of the oldest of these segments; 0: there is none.';
    gauge('cdp_archive_oldest_waiting_seconds', oldestHelp, () =>
      Math.max(0, ...states().map(({ since }) => (since === null ? 0 : (Date.now() - since.getTime()) / 1_000))),
    );
  }
  if (backupPlan === null) return;
  // Gauges that are collected at the same time share one query. While the control database is away, a scrape lacks them.
  const state = singleFlight(() => backupPlan.state().catch(() => null));
  const ofBackups = (name: string, help: string, valueOf: (now: BackupState) => number | null) =>
    gauge(name, help, async () => {
      const now = await state();
      return now === null ? null : valueOf(now);
    });
  const ageHelp = 'Age of the last complete backup into the folder of backup-to; +Inf: there is none.';
  ofBackups('cdp_backup_age_seconds', ageHelp, ({ ageSeconds }) => ageSeconds ?? Infinity);
  const timeHelp = 'Unix time of the last complete backup; 0: there is none.';
  ofBackups(
    'cdp_backup_last_success_timestamp_seconds',
    timeHelp,
    ({ last }) => (last?.succeededAt?.getTime() ?? 0) / 1_000,
  );
  const failedHelp = '1 if the last backup failed or left out a project, otherwise 0.';
  ofBackups('cdp_backup_failed', failedHelp, ({ last }) => Number(last?.error != null));
  const sizeHelp = 'Size of the projects in the last complete backup.';
  ofBackups('cdp_backup_size_bytes', sizeHelp, ({ last }) => last?.bytes ?? null);
}
