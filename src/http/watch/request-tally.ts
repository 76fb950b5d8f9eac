/**
 * Requests and their times, counted as they end and put into labels when somebody asks: the general way (`prom-client`)
 * hashes the labels of each request anew.
 */
interface RequestOutcome {
  /** The route's pattern, never the path. */
  route: string;
  method: string;
  status: number;
  /** Of the error; "" for a success. */
  code: string;
}

/** One route and method. */
interface Series {
  readonly route: string;
  readonly method: string;
  /** By error code, or by status for successes. */
  readonly outcomes: Map<string | number, { readonly outcome: RequestOutcome; count: number }>;
  /** Requests that took up to each of the bounds and longer than the one before; the last entry is those beyond all. */
  readonly buckets: number[];
  seconds: number;
}

export class RequestTally {
  private readonly series = new Map<string, Map<string, Series>>();

  /** @param bounds of the histogram's buckets, in seconds, ascending */
  constructor(private readonly bounds: readonly number[]) {}

  add(route: string, method: string, status: number, code: string | null, seconds: number): void {
    const series = this.series.get(route)?.get(method) ?? this.newSeries(route, method);
    const counted = series.outcomes.get(code ?? status);
    if (counted !== undefined) counted.count++;
    else series.outcomes.set(code ?? status, { outcome: { route, method, status, code: code ?? '' }, count: 1 });
    let bucket = 0;
    while (bucket < this.bounds.length && seconds > (this.bounds[bucket] as number)) bucket++;
    series.buckets[bucket] = (series.buckets[bucket] ?? 0) + 1;
    series.seconds += seconds;
  }

  *counts(): Iterable<{ outcome: RequestOutcome; count: number }> {
    for (const { outcomes } of this.all()) yield* outcomes.values();
  }

  /** The values of a histogram of that name, as `prom-client` takes them from a metric. */
  histogram(name: string): { labels: object; value: number; metricName: string }[] {
    return [...this.all()].flatMap(({ route, method, buckets, seconds }) => {
      let count = 0;
      const upTo = [...this.bounds, '+Inf'].map((le, i) => {
        count += buckets[i] ?? 0;
        return { labels: { le, route, method }, value: count, metricName: `${name}_bucket` };
      });
      const labels = { route, method };
      return [
        ...upTo,
        { labels, value: seconds, metricName: `${name}_sum` },
        { labels, value: count, metricName: `${name}_count` },
      ];
    });
  }

  private *all(): Iterable<Series> {
    for (const methods of this.series.values()) yield* methods.values();
  }

  private newSeries(route: string, method: string): Series {
    const buckets = Array.from({ length: this.bounds.length + 1 }, () => 0);
    const series: Series = { route, method, outcomes: new Map(), buckets, seconds: 0 };
    const methods = this.series.get(route) ?? new Map<string, Series>();
    this.series.set(route, methods.set(method, series));
    return series;
  }
}
