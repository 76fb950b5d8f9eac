/** Metrics of what the service stands on: the disk of the data folder, commits, standbys. Measured at each scrape. */
import { statfs } from 'node:fs/promises';
import { Gauge, type Registry } from 'prom-client';
import type { Engine } from '../../engine/engine.js';
import { replicationOf, timeOfCommit } from '../../tenancy/server-health.js';

/** What cannot be measured is NaN, to which no alert compares. Postgres has some seconds to answer, as every pool gives it. */
export function serverMetrics({ control, folder }: Engine, registers: Registry[]): void {
  const gauge = (name: string, help: string, measure: () => Promise<number>) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        this.set(await measure().catch(() => NaN));
      },
    });
  const replication = shared(() => control.ask(replicationOf));
  gauge(
    'cdp_commit_duration_seconds',
    'Time of one small commit in the control database, by this scrape.',
    async () => {
      // It would not return.
      if (folder === null && (await replication()).missing !== null) return NaN;
      return control.ask(timeOfCommit);
    },
  );
  if (folder !== null) {
    const disk = shared(() => statfs(folder));
    gauge('cdp_disk_free_bytes', 'Free space on the disk of the embedded servers.', async () => {
      const { bavail, bsize } = await disk();
      return bavail * bsize;
    });
    gauge('cdp_disk_size_bytes', 'Size of the disk of the embedded servers.', async () => {
      const { blocks, bsize } = await disk();
      return blocks * bsize;
    });
    return;
  }
  gauge('cdp_standbys', 'Connected standbys of Postgres.', async () => (await replication()).standbys);
  gauge('cdp_standby_lag_bytes', 'Write-ahead log that the slowest standby has not replayed.', async () => {
    const { standbys, lagBytes } = await replication();
    return lagBytes ?? (standbys === 0 ? 0 : NaN);
  });
  gauge(
    'cdp_standby_missing',
    '1 if commits wait for a synchronous standby and none is connected, else 0.',
    async () => ((await replication()).missing === null ? 0 : 1),
  );
}

/** Gauges that are collected at the same time share one measurement. */
function shared<T>(measure: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | null = null;
  return () => (running ??= measure().finally(() => (running = null)));
}
