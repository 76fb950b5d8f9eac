/** Which projects are to move, and where: off servers that are draining, and from full servers to empty ones. Changes nothing. */
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { serverName } from '../../contract/servers.js';
import type { ServerRow } from '../../tenancy/server-rows.js';

export interface PlannedMove {
  readonly project: string;
  readonly from: string;
  /** null: no other server takes it. */
  readonly to: string | null;
}

/** A server, and who would be there after the moves planned so far. */
interface Place {
  readonly server: ServerRow;
  readonly projects: ProjectRow[];
}

/**
 * A project moves only to a server that has all labels of the one where it lives. No move is planned that leaves its target as loaded
 * as its source was: projects for each weight.
 */
export function planRebalance(servers: readonly ServerRow[], projects: readonly ProjectRow[]): PlannedMove[] {
  const places = servers.map((server): Place => {
    const here = projects.filter(({ placement }) => serverName(placement) === server.name);
    return { server, projects: here.filter(({ status }) => status === 'active' || status === 'inactive') };
  });
  const planned: PlannedMove[] = [];
  const move = (from: Place, to: Place | undefined): void => {
    const project = from.projects.pop();
    if (project === undefined) return;
    planned.push({ project: project.name, from: from.server.name, to: to?.server.name ?? null });
    to?.projects.push(project);
  };

  for (const from of places.filter(({ server }) => server.status === 'draining')) {
    while (from.projects.length > 0) move(from, leastLoaded(from, places));
  }
  const active = places.filter(({ server }) => server.status === 'active');
  for (const from of active.sort((a, b) => load(b) - load(a))) {
    for (let to = leastLoaded(from, active); to !== undefined && isWorthIt(from, to); to = leastLoaded(from, active)) {
      move(from, to);
    }
  }
  return planned;
}

const load = ({ server, projects }: Place, more = 0): number => (projects.length + more) / server.weight;

const isWorthIt = (from: Place, to: Place): boolean => load(to, 1) < load(from);

const leastLoaded = (from: Place, places: readonly Place[]): Place | undefined =>
  places.filter((to) => to !== from && takes(to, from)).sort((a, b) => load(a, 1) - load(b, 1))[0];

/** Projects neither come to Citus nor leave it. */
const takes = ({ server, projects }: Place, from: Place): boolean =>
  server.status === 'active' &&
  [server, from.server].every(({ engine }) => engine === 'postgres') &&
  projects.length < (server.tenancy === 'dedicated' ? 1 : (server.maxProjects ?? Infinity)) &&
  Object.entries(from.server.labels).every(([key, value]) => server.labels[key] === value);
