/** Reads the service's metrics in Prometheus's text format, and computes the changes between two samples. */
import { currentSession, watchedFetch } from '../session.js';

/** The values of each metric, by its labels as written. */
export type Metrics = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** A sample, and its time by `performance.now()`. */
export interface Sample {
  readonly at: number;
  readonly metrics: Metrics;
}

/** @throws Error with a message for the user */
export async function takeSample(): Promise<Sample> {
  const { token } = currentSession();
  const headers = { authorization: `Bearer ${token}` };
  const response = await watchedFetch(token)('/metrics', { headers }).catch(() => {
    throw new Error('The service does not respond.');
  });
  if (!response.ok) throw new Error(`The service does not show its metrics here (${response.status}).`);
  return { at: performance.now(), metrics: parseMetrics(await response.text()) };
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;

export function parseMetrics(text: string): Metrics {
  const metrics = new Map<string, Map<string, number>>();
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    let values = metrics.get(name);
    if (values === undefined) metrics.set(name, (values = new Map<string, number>()));
    values.set(labels, Number(value));
  }
  return metrics;
}

/** The sum over all matching labels; undefined if the metric does not exist. */
export function total({ metrics }: Sample, name: string, labels = /(?:)/): number | undefined {
  const values = metrics.get(name);
  if (values === undefined) return undefined;
  let sum = 0;
  for (const [written, value] of values) if (labels.test(written)) sum += value;
  return sum;
}

/** The growth of a counter per second. After a restart of the service, it counts from 0. */
export function rate(before: Sample, after: Sample, name: string, labels?: RegExp): number {
  const [from = 0, to = 0] = [total(before, name, labels), total(after, name, labels)];
  return ((to >= from ? to - from : to) * 1_000) / (after.at - before.at);
}

/**
 * A quantile of the observations between two samples, estimated from a histogram's buckets as in Prometheus; null if
 * there were none.
 */
export function quantile(before: Sample, after: Sample, name: string, share: number): number | null {
  const bounds = new Map<number, number>();
  for (const [sample, sign] of [
    [before, -1],
    [after, 1],
  ] as const) {
    for (const [labels, value] of sample.metrics.get(`${name}_bucket`) ?? []) {
      if (!OF_API.test(labels)) continue;
      const bound = Number(/\ble="([^"]*)"/.exec(labels)?.[1]?.replace('+Inf', 'Infinity'));
      bounds.set(bound, (bounds.get(bound) ?? 0) + sign * value);
    }
  }
  const sorted = [...bounds].sort(([a], [b]) => a - b);
  const all = sorted.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  const wanted = all * share;
  let [lower, below] = [0, 0];
  for (const [bound, seen] of sorted) {
    if (seen >= wanted) {
      if (bound === Infinity) return lower;
      return lower + ((bound - lower) * (wanted - below)) / Math.max(seen - below, 1);
    }
    [lower, below] = [bound, seen];
  }
  return lower;
}

/** Excludes requests for the files of this page and for metrics. */
export const OF_API = /route="\/api\//;
