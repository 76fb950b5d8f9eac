/** Snapshots, as text (Postgres manual, Transaction ID and Snapshot Information Functions). */

/**
 * Whether a snapshot contains the changes of a transaction.
 * @param snapshot in the format of pg_current_snapshot() (Postgres manual, Transaction ID and Snapshot Information
 * Functions)
 * @returns a predicate that takes the low half of the transaction's number
 */
export function visibleIn(snapshot: string): (xid: number) => boolean {
  const [xmin = 0, xmax = 0] = snapshot.split(':').map(Number);
  const running = new Set(snapshot.split(':')[2]?.split(',').map(Number));
  return (low) => {
    // Valid because the compared numbers are less than 2^31 apart.
    const xid = xmax + ((low - (xmax % 2 ** 32)) | 0);
    return xid < xmin || (xid < xmax && !running.has(xid));
  };
}
