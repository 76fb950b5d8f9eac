/** Rolls back transactions that sessions have prepared for two-phase commit, but not finished in time. */
import type { Placement } from '../../tenancy/placement.js';
import { rollBackPrepared } from '../../tenancy/prepared-transactions.js';
import type { Servers } from '../../tenancy/servers.js';
import { SharedTenancy } from '../../tenancy/shared-tenancy.js';
import type { Projects } from '../projects/projects.js';

const EVERY_MS = 60_000;

export class PreparedTransactions {
  private readonly timer: NodeJS.Timeout;

  /** @param longestMs how long they may stay */
  constructor(
    private readonly servers: Servers,
    private readonly projects: Projects,
    private readonly longestMs: number,
  ) {
    // A server that cannot be reached now is asked again later.
    const rollBack = () => void this.rollBackOld().catch(() => {});
    this.timer = setInterval(rollBack, Math.min(EVERY_MS, longestMs)).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async rollBackOld(): Promise<void> {
    const placements = new Map<SharedTenancy, Placement[]>();
    for (const { placement } of await this.projects.list()) {
      const server = this.servers.tenancyOf(placement);
      // Embedded servers allow no prepared transactions.
      if (server instanceof SharedTenancy) placements.set(server, [...(placements.get(server) ?? []), placement]);
    }
    await Promise.allSettled([...placements].map(([server, all]) => rollBackPrepared(server, all, this.longestMs)));
  }
}
