/** The metrics of all workers as those of one service. */
import { AggregatorRegistry } from 'prom-client';
import type { Metrics } from './messages.js';
import type { WorkerProcess } from './worker-process.js';

/** Whoever does not say in time is counted with what it last said. */
const PATIENCE_MS = 2_000;

/** What only grows: it must not fall because a worker has ended. */
const CUMULATIVE: ReadonlySet<string> = new Set(['counter', 'histogram', 'summary'] as const);

export class MetricsSum {
  /** What workers that are there said last. */
  private readonly last = new Map<WorkerProcess, Metrics>();
  /** Counts of workers that have ended, as far as they were ever asked for. */
  private ofEnded: Metrics = [];

  /** @returns Prometheus's text format */
  async text(workers: readonly WorkerProcess[]): Promise<string> {
    const all = await Promise.all(workers.map((worker) => this.of(worker)));
    return AggregatorRegistry.aggregate([...all, this.ofEndedIn(all)]).metrics();
  }

  ended(worker: WorkerProcess): void {
    const counts = (this.last.get(worker) ?? []).filter(({ type }) => CUMULATIVE.has(String(type)));
    this.last.delete(worker);
    this.ofEnded = AggregatorRegistry.aggregate([this.ofEnded, counts]).getMetricsAsArray() as unknown as Metrics;
  }

  /**
   * Without those of projects that no worker names any more: they are deleted. They are not thrown away, since a worker
   * that has just started may not have heard of any, and a count that comes back smaller would be taken for a new one.
   */
  private ofEndedIn(living: readonly Metrics[]): Metrics {
    const named = new Set(living.flat().flatMap(({ values }) => values.map(({ labels }) => labels.project)));
    return this.ofEnded.map((metric) => ({
      ...metric,
      values: metric.values.filter(({ labels }) => labels.project === undefined || named.has(labels.project)),
    }));
  }

  private async of(worker: WorkerProcess): Promise<Metrics> {
    const last = this.last.get(worker) ?? [];
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Metrics>((resolve) => (timer = setTimeout(resolve, PATIENCE_MS, last)));
    const metrics = await Promise.race([worker.metrics().catch(() => last), late]);
    clearTimeout(timer);
    // It is among those that have ended then.
    if (!worker.isReady) return [];
    this.last.set(worker, metrics);
    return metrics;
  }
}
