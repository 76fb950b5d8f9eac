/** The outcome of batches that were sent so long ago that a repeat could store them twice. */
import type { CdpClient } from '../client/client.js';
import { LIMITS } from '../contract/limits.js';
import type { Journal, Part } from './journal.js';

/** By how much the clocks of the service and of this machine may differ. */
const CLOCKS_DIFFER_MS = 3_600_000;

/**
 * Asks for the receipts of the journal's outdated batches, and marks the stored ones as done. A receipt does not say
 * how many rows were updated, ignored or quarantined.
 * @returns how many batches remain in doubt: they have no receipt, and were sent before receipts go back
 */
export async function settleOutdated(client: CdpClient, journal: Journal, table: string): Promise<number> {
  const parts = journal.outdated.flatMap(({ batch, sentAt }) =>
    journal.partsOf(batch).map((part) => ({ batch, sentAt, part, key: journal.keyOf(batch, part) })),
  );
  const inDoubt = new Set<number>();
  for (let i = 0; i < parts.length; i += LIMITS.keysPerQuery) {
    const asked = parts.slice(i, i + LIMITS.keysPerQuery);
    const receipts = await client.receipts(
      table,
      asked.map(({ key }) => key),
    );
    for (const [n, receipt] of receipts.entries()) {
      const { batch, sentAt, part } = asked[n] as (typeof asked)[number];
      if (receipt.status === 'stored') await markStored(journal, batch, part, receipt.rows ?? 0);
      else if (receipt.status === 'running' || Date.parse(receipt.since) > sentAt - CLOCKS_DIFFER_MS)
        inDoubt.add(batch);
    }
  }
  return inDoubt.size;
}

const markStored = (journal: Journal, batch: number, part: Part, rows: number): Promise<void> =>
  journal.addDone(batch, part, { inserted: rows, updated: 0, ignored: 0, quarantined: 0 });
