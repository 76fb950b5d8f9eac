/** A question to the database, and how many of them fit into one request. */
import type { Ask } from '../ask.js';

export interface Probe {
  /** What is asked; stands in the report of a leak. */
  readonly name: string;
  readonly sql: string;
}

/** Shows a probe's name and its whole response. */
export type Report = (probe: Probe, response: string) => void;

const AT_ONCE = 5;

/** Asks each probe in a request of its own, some at a time. */
export async function askEach(ask: Ask, probes: readonly Probe[], report: Report, atOnce = AT_ONCE): Promise<void> {
  const left = [...probes];
  const worker = async (): Promise<void> => {
    for (let probe = left.shift(); probe !== undefined; probe = left.shift()) report(probe, await ask(probe.sql));
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
