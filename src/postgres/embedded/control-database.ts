/** The control database of an embedded server, which nobody else makes. */
import { ADVISORY_LOCKS } from '../advisory-locks.js';
import type { ServerAddress } from '../server.js';
import { withServiceClient } from '../service-pool.js';

/** Makes the control database of an embedded server where it is missing, and closes it to everybody but the service. */
export async function ensureControlDatabase(address: ServerAddress): Promise<void> {
  const { database } = address;
  await withServiceClient(address, 'postgres', async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.controlDatabase]);
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${database}`);
    // Every time: a start may have been killed between the two.
    await client.query(`REVOKE ALL ON DATABASE ${database}, postgres, template1 FROM PUBLIC`);
  });
}
