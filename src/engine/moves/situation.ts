/** Collects the facts about servers and projects that `cdp rebalance` needs. */
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { serverName } from '../../contract/servers.js';
import { placeOf, type ServerRow } from '../../tenancy/control/server-rows.js';
import type { Servers } from '../../tenancy/servers.js';
import type { ProjectParts } from '../projects/project-parts.js';
import { sizesOf } from '../projects/sizes.js';
import type { Offer, Situation } from './plan-rebalance.js';
import { needsOf } from './project-needs.js';

/** @throws EngineError database_unavailable of the control database */
export async function situationOf({ control, servers }: ProjectParts): Promise<Situation> {
  const [all, projects] = [await control.servers.list(), await control.projects.list()];
  const asked = await Promise.all(all.map(async (server) => [server.name, await offerOf(servers, server)] as const));
  const offers = new Map(asked.filter((entry): entry is [string, Offer] => entry[1] !== null));
  const isOpen = ({ name, status }: ServerRow) => status === 'active' && offers.get(name)?.mayOwnSchemas === false;
  const withSchemas = all.some(isOpen) ? await schemaOwners(servers, projects, offers) : new Set<string>();
  return { servers: all, projects, offers, sizes: await sizesOf(servers, projects), withSchemas };
}

/** null: the server does not answer. */
async function offerOf(servers: Servers, row: ServerRow): Promise<Offer | null> {
  try {
    const place = placeOf(row);
    servers.requireUp(place);
    const tenancy = servers.tenancyOf(place);
    return {
      major: await tenancy.major(),
      extensions: await tenancy.extensions(),
      mayOwnSchemas: await tenancy.mayOwnSchemas(),
    };
  } catch {
    return null;
  }
}

/** Does not start a stopped server: a move that finds schemas there is refused with that reason. */
async function schemaOwners(
  servers: Servers,
  projects: readonly ProjectRow[],
  offers: ReadonlyMap<string, Offer>,
): Promise<Set<string>> {
  const owners = new Set<string>();
  for (const { id, placement } of projects) {
    if (!placement.ownSchemas || !offers.has(serverName(placement))) continue;
    const tenancy = servers.tenancyOf(placement);
    if (!tenancy.runs(placement)) continue;
    // A project that is half created or half deleted does not move anyway.
    const needs = await needsOf(tenancy, placement).catch(() => null);
    if (needs !== null && needs.schemas.length > 0) owners.add(id);
  }
  return owners;
}
