/** Metrics that are read at each scrape. */
import type { Counter, Gauge, Registry } from 'prom-client';

/** Values by their labels. */
export type Samples = readonly (readonly [labels: Record<string, string>, value: number])[];

/** @param read reads all values of the metric */
export function series(
  registers: Registry[],
  Kind: typeof Counter | typeof Gauge,
  name: string,
  help: string,
  labelNames: string[],
  read: () => Samples | Promise<Samples>,
): void {
  new Kind({
    name,
    help,
    labelNames,
    registers,
    async collect() {
      const samples = await read();
      this.reset();
      for (const [labels, value] of samples) this.inc(labels, value);
    },
  });
}
