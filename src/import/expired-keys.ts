/** Finds the outcome of batches that were sent so long ago that a retry could store them twice. */
import type { CdpClient } from '../client/client.js';
import { LIMITS } from '../contract/limits.js';
import type { Journal, Part } from './journal.js';

/** Maximum difference expected between the clocks of the service and of this machine. */
const CLOCKS_DIFFER_MS = 3_600_000;

/**
 * Requests the receipts of the journal's outdated batches, and marks the stored ones as done. A receipt does not
 * contain the numbers of rows that were updated, ignored or quarantined.
 * @returns the number of batches that remain in doubt: they have no receipt, and are older than any receipt
 */
export async function settleExpired(client: CdpClient, journal: Journal, table: string): Promise<number> {
  const parts = journal.batchesWithExpiredKeys.flatMap(({ batch, sentAt }) =>
    journal.partsOf(batch).map((part) => ({ batch, sentAt, part, key: journal.keyOf(batch, part) })),
  );
  const inDoubt = new Set<number>();
  for (let i = 0; i < parts.length; i += LIMITS.keysPerQuery) {
    const batchOfKeys = parts.slice(i, i + LIMITS.keysPerQuery);
    const receipts = await client.receipts(
      table,
      batchOfKeys.map(({ key }) => key),
    );
    for (const [n, receipt] of receipts.entries()) {
      const { batch, sentAt, part } = batchOfKeys[n] as (typeof batchOfKeys)[number];
      if (receipt.status === 'stored') await markStored(journal, batch, part, receipt.rows ?? 0);
      else if (receipt.status === 'running' || Date.parse(receipt.since) > sentAt - CLOCKS_DIFFER_MS)
        inDoubt.add(batch);
    }
  }
  return inDoubt.size;
}

const markStored = (journal: Journal, batch: number, part: Part, rows: number): Promise<void> =>
  journal.addDone(batch, part, { inserted: rows, updated: 0, ignored: 0, quarantined: 0 });

/** Why the batches that remain in doubt are not sent again. */
export const doubtOf = (batches: number): string =>
  batches === 1
    ? '1 batch got no response and is so old that the service may have forgotten its key; sending it again could store its rows twice'
    : `${batches} batches got no response and are so old that the service may have forgotten their keys; sending them again could store their rows twice`;
