/** Rolls back transactions that sessions have prepared for two-phase commit, but not finished in time. */
import { every } from '../../contract/every.js';
import type { Placement } from '../../tenancy/placement.js';
import { rollBackPrepared } from '../../tenancy/prepared-transactions.js';
import type { Servers } from '../../tenancy/servers.js';
import { SharedTenancy } from '../../tenancy/shared-tenancy.js';
import type { Projects } from '../projects/projects.js';

const EVERY_MS = 60_000;

/** @param maxMs how long they may stay @returns a function that stops it */
export function startRollingBack(servers: Servers, projects: Projects, maxMs: number): () => void {
  return every(Math.min(EVERY_MS, maxMs), async () => {
    const placements = new Map<SharedTenancy, Placement[]>();
    for (const { placement } of await projects.list()) {
      const server = servers.tenancyOf(placement);
      // Embedded servers allow no prepared transactions.
      if (server instanceof SharedTenancy) placements.set(server, [...(placements.get(server) ?? []), placement]);
    }
    // A server that cannot be reached now is asked again later.
    await Promise.allSettled([...placements].map(([server, all]) => rollBackPrepared(server, all, maxMs)));
  });
}
