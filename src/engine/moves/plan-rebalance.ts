/** Plans moves of projects: off servers that are draining, and from full servers to empty ones. Changes nothing. */
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { serverName } from '../../contract/servers.js';
import type { ServerRow } from '../../tenancy/server-rows.js';

export interface PlannedMove {
  readonly project: string;
  readonly from: string;
  /** null: no other server can take it. */
  readonly to: string | null;
}

/** The properties of a server that matter for placing a project. */
export interface Offer {
  /** Major version of Postgres. */
  readonly major: number;
  readonly extensions: readonly string[];
  readonly mayOwnSchemas: boolean;
}

export interface Situation {
  readonly servers: readonly ServerRow[];
  readonly projects: readonly ProjectRow[];
  /** By name of the server. A server that does not answer is missing: nothing moves to or from it. */
  readonly offers: ReadonlyMap<string, Offer>;
  /** Known sizes on disk in bytes, by id of the project. */
  readonly sizes: ReadonlyMap<string, number>;
  /** Ids of projects that have created schemas. */
  readonly withSchemas: ReadonlySet<string>;
}

/** A server, and its projects after the moves planned so far. */
interface Place {
  readonly server: ServerRow;
  readonly offer: Offer | undefined;
  readonly projects: ProjectRow[];
  bytes: number;
}

/**
 * A project moves only to a server that has all labels, the extensions and at least the Postgres version of its present
 * one. No move is planned that leaves its target as loaded as its source was; load is projects per weight.
 */
export function planRebalance(situation: Situation): PlannedMove[] {
  const { servers, projects, offers, sizes, withSchemas } = situation;
  const sizeOf = ({ id }: ProjectRow): number => sizes.get(id) ?? 0;
  const places = servers.map((server): Place => {
    const here = projects.filter(({ placement }) => serverName(placement) === server.name);
    return {
      server,
      offer: offers.get(server.name),
      projects: here.filter(({ status }) => status === 'active' || status === 'inactive'),
      bytes: here.reduce((sum, project) => sum + sizeOf(project), 0),
    };
  });
  const fits = (project: ProjectRow, to: Place): boolean =>
    to.bytes + sizeOf(project) <= (to.server.maxBytes ?? Infinity) &&
    (to.offer?.mayOwnSchemas === true || !withSchemas.has(project.id));
  const planned: PlannedMove[] = [];
  const move = (project: ProjectRow, from: Place, to: Place | undefined): void => {
    planned.push({ project: project.name, from: from.server.name, to: to?.server.name ?? null });
    from.projects.splice(from.projects.indexOf(project), 1);
    from.bytes -= sizeOf(project);
    if (to === undefined) return;
    to.projects.push(project);
    to.bytes += sizeOf(project);
  };

  for (const from of places.filter(({ server }) => server.status === 'draining')) {
    for (const project of [...from.projects].reverse()) {
      move(
        project,
        from,
        takers(from, places).find((to) => fits(project, to)),
      );
    }
  }
  const active = places.filter(({ server }) => server.status === 'active');
  for (const from of active.sort((a, b) => load(b) - load(a))) {
    for (let isDone = false; !isDone;) {
      isDone = true;
      for (const to of takers(from, active).filter((one) => isWorthIt(from, one))) {
        const project = from.projects.findLast((one) => fits(one, to));
        if (project === undefined) continue;
        move(project, from, to);
        isDone = false;
        break;
      }
    }
  }
  return planned;
}

const load = ({ server, projects }: Place, more = 0): number => (projects.length + more) / server.weight;

const isWorthIt = (from: Place, to: Place): boolean => load(to, 1) < load(from);

/** The least loaded first. */
const takers = (from: Place, places: readonly Place[]): Place[] =>
  places.filter((to) => to !== from && takes(to, from)).sort((a, b) => load(a, 1) - load(b, 1));

/** A rebalance moves no project to or from Citus. */
const takes = ({ server, offer, projects }: Place, from: Place): boolean =>
  server.status === 'active' &&
  [server, from.server].every(({ engine }) => engine === 'postgres') &&
  offer !== undefined &&
  from.offer !== undefined &&
  offer.major >= from.offer.major &&
  from.offer.extensions.every((name) => offer.extensions.includes(name)) &&
  projects.length < (server.tenancy === 'dedicated' ? 1 : (server.maxProjects ?? Infinity)) &&
  Object.entries(from.server.labels).every(([key, value]) => server.labels[key] === value);
