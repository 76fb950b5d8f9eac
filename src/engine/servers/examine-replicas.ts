/** Checks that servers are streaming replicas of another. */
import { messageOf } from '../../contract/operator-message.js';
import type { Finding } from '../../contract/wire/operator.js';
import type { ServerAddress } from '../../pg/index.js';
import { addressAt } from '../../tenancy/server-url.js';
import { walOf } from '../../tenancy/server-probe.js';
import { ok, problem } from './finding.js';

/** Returns one finding for each. */
export const examineReplicas = (primary: ServerAddress, references: readonly string[]): Promise<Finding[]> =>
  Promise.all(references.map((reference) => examine(primary, reference)));

async function examine(primary: ServerAddress, reference: string): Promise<Finding> {
  const subject = `replica ${reference}`;
  try {
    const replica = await walOf({ ...addressAt(reference), needsPrimary: false });
    const { cluster, lsn } = await walOf(primary);
    if (replica.cluster === cluster && replica.isStandby) {
      return ok(subject, `it is ${lsn > replica.lsn ? lsn - replica.lsn : 0n} bytes behind`);
    }
    return problem(subject, `${reference} is not a standby of the server`, 'Name a streaming replica of the server.');
  } catch (error) {
    return problem(subject, messageOf(error), `Check ${reference}, and pg_hba.conf and the log of the replica.`);
  }
}
