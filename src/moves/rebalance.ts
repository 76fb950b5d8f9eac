/** Plans moves of projects: off servers that are draining, and between the others to balance them by weight. Changes nothing. */
import { isReady } from '../contract/projects.js';
import { isOn, serverName, takesRebalance } from '../contract/servers.js';
import type { PlannedMove } from '../contract/wire/moves.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { serverRefOf, type ServerRow } from '../tenancy/control/server-rows.js';
import type { Servers } from '../tenancy/servers.js';
import { needsOf } from './needs.js';
import type { MoveServices } from './move-services.js';

/** The properties of a server that matter for placing a project. */
export interface Offer {
  /** Major version of Postgres. */
  readonly major: number;
  readonly extensions: readonly string[];
  readonly allowsOwnSchemas: boolean;
}

export interface RebalanceFacts {
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
interface ServerLoad {
  readonly server: ServerRow;
  readonly offer: Offer | undefined;
  readonly projects: PlacedProject[];
  bytes: number;
}

interface PlacedProject {
  readonly name: string;
  readonly bytes: number;
  readonly hasSchemas: boolean;
}

/**
 * A project moves only to a server that has all labels, the extensions and at least the Postgres version of its present
 * one. No move is planned that leaves its target as loaded as its source was; load is projects per weight.
 */
export function planRebalance(facts: RebalanceFacts): PlannedMove[] {
  const { servers, projects, offers, sizes, withSchemas } = facts;
  const places = servers.map((server): ServerLoad => {
    const here = projects.filter(isOn(server.name));
    return {
      server,
      offer: offers.get(server.name),
      projects: here
        .filter(isReady)
        .map(({ id, name }) => ({ name, bytes: sizes.get(id) ?? 0, hasSchemas: withSchemas.has(id) })),
      bytes: here.reduce((sum, { id }) => sum + (sizes.get(id) ?? 0), 0),
    };
  });
  const moves: PlannedMove[] = [];
  const move = (project: PlacedProject, from: ServerLoad, to: ServerLoad): void => {
    moves.push({ project: project.name, from: from.server.name, to: to.server.name });
    from.projects.splice(from.projects.indexOf(project), 1);
    from.bytes -= project.bytes;
    to.projects.push(project);
    to.bytes += project.bytes;
  };

  for (const from of places.filter(({ server }) => server.status === 'draining')) {
    for (const project of [...from.projects].reverse()) {
      const others = othersOf(from, places).map((to) => ({ to, why: obstacle(project, from, to) }));
      const to = others.find(({ why }) => why === null)?.to;
      if (to !== undefined) move(project, from, to);
      else {
        const obstacles = Object.fromEntries(others.map((other) => [other.to.server.name, other.why ?? '']));
        moves.push({ project: project.name, from: from.server.name, to: null, obstacles });
      }
    }
  }
  const active = places.filter(({ server }) => server.status === 'active');
  for (const from of active.sort((a, b) => load(b) - load(a))) {
    for (let isDone = false; !isDone;) {
      isDone = true;
      for (const to of othersOf(from, active).filter((other) => isWorthIt(from, other))) {
        const project = from.projects.findLast((one) => obstacle(one, from, to) === null);
        if (project === undefined) continue;
        move(project, from, to);
        isDone = false;
        break;
      }
    }
  }
  return moves;
}

const load = ({ server, projects }: ServerLoad, more = 0): number => (projects.length + more) / server.weight;

const isWorthIt = (from: ServerLoad, to: ServerLoad): boolean => load(to, 1) < load(from);

/** The least loaded first. */
const othersOf = (from: ServerLoad, places: readonly ServerLoad[]): ServerLoad[] =>
  places.filter((to) => to !== from).sort((a, b) => load(a, 1) - load(b, 1));

/** Why the project cannot move there; null: it can. */
function obstacle(project: PlacedProject, from: ServerLoad, to: ServerLoad): string | null {
  const { server, offer } = to;
  if (server.status !== 'active') return `it is ${server.status}`;
  if (![server, from.server].every(takesRebalance)) return 'a rebalance moves nothing to or from Citus';
  if (offer === undefined) return 'it does not answer';
  if (from.offer === undefined) return `${from.server.name} does not answer`;
  if (offer.major < from.offer.major)
    return `it has Postgres ${offer.major}, ${from.server.name} has ${from.offer.major}`;
  const extensions = from.offer.extensions.filter((name) => !offer.extensions.includes(name));
  if (extensions.length > 0) return `it does not have the extensions ${extensions.join(', ')}`;
  const labels = Object.entries(from.server.labels).filter(([key, value]) => server.labels[key] !== value);
  if (labels.length > 0) return `it does not have the labels ${labels.map((label) => label.join('=')).join(', ')}`;
  if (to.projects.length >= (server.tenancy === 'dedicated' ? 1 : (server.maxProjects ?? Infinity)))
    return 'it has reached its limit of projects';
  if (to.bytes + project.bytes > (server.maxBytes ?? Infinity)) return 'its projects would exceed its size limit';
  if (!offer.allowsOwnSchemas && project.hasSchemas) return 'projects may not have schemas of their own there';
  return null;
}

/** What is known about servers and projects now. @throws EngineError database_unavailable of the control database */
export async function factsForRebalance({ control, servers, sizesOf }: MoveServices): Promise<RebalanceFacts> {
  const [all, projects] = [await control.servers.list(), await control.projects.list()];
  const offerOfEach = await Promise.all(
    all.map(async (server) => [server.name, await offerOf(servers, server)] as const),
  );
  const offers = new Map(offerOfEach.filter((entry): entry is [string, Offer] => entry[1] !== null));
  const isOpen = ({ name, status }: ServerRow) => status === 'active' && offers.get(name)?.allowsOwnSchemas === false;
  const withSchemas = all.some(isOpen) ? await schemaOwners(servers, projects, offers) : new Set<string>();
  return { servers: all, projects, offers, sizes: await sizesOf(projects), withSchemas };
}

/** null: the server does not answer. */
async function offerOf(servers: Servers, row: ServerRow): Promise<Offer | null> {
  try {
    const place = serverRefOf(row);
    servers.requireUp(place);
    const tenancy = servers.tenancyOf(place);
    return {
      major: await tenancy.major(),
      extensions: await tenancy.extensions(),
      allowsOwnSchemas: await tenancy.allowsOwnSchemas(),
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
    if (!tenancy.isRunning(placement)) continue;
    // A project that is half created or half deleted does not move anyway.
    const needs = await needsOf(tenancy, placement).catch(() => null);
    if (needs !== null && needs.schemas.length > 0) owners.add(id);
  }
  return owners;
}
