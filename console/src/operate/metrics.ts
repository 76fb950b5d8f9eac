/** The service's metrics: Prometheus's text format, and what happened between two looks at them. */
import { entered, watchedFetch } from '../session.js';

/** The values of each metric by its labels, as they are written. */
export type Metrics = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** A look, and when it was taken on the clock of `performance.now()`. */
export interface Look {
  readonly at: number;
  readonly metrics: Metrics;
}

/** @throws Error for people */
export async function look(): Promise<Look> {
  const headers = { authorization: `Bearer ${entered().token}` };
  const response = await watchedFetch('/metrics', { headers }).catch(() => {
    throw new Error('The service does not respond.');
  });
  if (!response.ok) throw new Error(`The service does not show its metrics here (${response.status}).`);
  return { at: performance.now(), metrics: read(await response.text()) };
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;

export function read(text: string): Metrics {
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

/** The sum over all labels that match; undefined: there is no such metric. */
export function total({ metrics }: Look, name: string, labels = /(?:)/): number | undefined {
  const values = metrics.get(name);
  if (values === undefined) return undefined;
  let sum = 0;
  for (const [written, value] of values) if (labels.test(written)) sum += value;
  return sum;
}

/** The growth of a counter in a second. A service that has started again counts from 0. */
export function rate(before: Look, after: Look, name: string, labels?: RegExp): number {
  const [from = 0, to = 0] = [total(before, name, labels), total(after, name, labels)];
  return ((to >= from ? to - from : to) * 1_000) / (after.at - before.at);
}

/**
 * A quantile of what was observed between two looks, by the upper bounds of a histogram's buckets, as Prometheus
 * estimates it; null: nothing was.
 */
export function quantile(before: Look, after: Look, name: string, share: number): number | null {
  const bounds = new Map<number, number>();
  for (const [look, sign] of [
    [before, -1],
    [after, 1],
  ] as const) {
    for (const [labels, value] of look.metrics.get(`${name}_bucket`) ?? []) {
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

/** Not the files of this page, nor the looks themselves. */
export const OF_API = /route="\/api\//;
