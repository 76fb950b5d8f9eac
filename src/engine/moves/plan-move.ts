/**
 * Checks whether a project can move to a server, and lists all obstacles. Changes no project; on a shared server it may
 * prepare the template.
 */
import { streamObstacles } from '../../backup/stream/obstacles.js';
import { EngineError } from '../../contract/errors.js';
import type { MoveMode } from '../../contract/moves.js';
import { sql } from '../../pg/index.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { isReady } from '../../contract/projects.js';
import { serverName } from '../../contract/servers.js';
import { placeOf, type ServerRow } from '../../tenancy/control/server-rows.js';
import { serviceWork } from '../../tenancy/service-work.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { isFull, serverNamed } from '../projects/choose-server.js';
import type { ProjectParts } from '../projects/project-parts.js';
import { needsOf, type ProjectNeeds } from './project-needs.js';

export interface MovePlan {
  readonly project: ProjectRow;
  readonly to: ServerRow;
  /** The size of the project on disk; null: unknown. */
  readonly bytes: number | null;
  /** Obstacles as text; empty: the project can move. */
  readonly obstacles: readonly string[];
  /** Why it is copied although a stream was requested, and about how long that takes; null: it is not. */
  readonly fallback: string | null;
  /** The error if one of the servers does not answer; null: both answered. */
  readonly unreachable: EngineError | null;
}

/**
 * A server that does not answer is an obstacle. @throws EngineError not_found; database_unavailable of the control
 * database
 */
export async function planMove(
  parts: ProjectParts,
  project: ProjectRow,
  server: string,
  mode: MoveMode,
): Promise<MovePlan> {
  const to = await serverNamed(parts.control.servers, server);
  const { placement } = project;
  const from = serverName(placement);
  const hasRoom = await parts.control.servers.hasRoom(to.name);
  const known = [
    ...(isReady(project) ? [] : [`it is ${project.status}`]),
    ...(from === to.name ? [`it lives on ${to.name} already`] : []),
    ...(to.status === 'active' ? [] : [`the server ${to.name} is ${to.status}`]),
    ...(hasRoom || from === to.name ? [] : [`the server ${to.name} has reached its limit of projects`]),
  ];
  const source = await ask(from, () => sourceOf(parts, project));
  const target = await ask(to.name, async () => {
    const tenancy = parts.servers.tenancyOf(placeOf(to));
    const full = (await isFull(to, parts)) ? [`the projects on ${to.name} have reached its size limit`] : [];
    return [...full, ...(source.found === null ? [] : await missing(source.found, tenancy, to))];
  });
  const replies = [source, target];
  const bytes = source.found?.bytes ?? null;
  const obstacles = [
    ...known,
    ...replies.flatMap(({ unreachable, server: name }) =>
      unreachable === null ? [] : [`the server ${name} does not answer`],
    ),
    ...(source.found?.obstacles ?? []),
    ...(target.found ?? []),
  ];
  const isStreamed = mode === 'stream' && obstacles.length === 0;
  const obstaclesToStream = isStreamed ? await notStreamable(parts, project, to) : [];
  return {
    project,
    to,
    bytes,
    obstacles,
    fallback: obstaclesToStream.length > 0 ? inWords(obstaclesToStream.join('; '), bytes) : null,
    unreachable: replies.find(({ unreachable }) => unreachable !== null)?.unreachable ?? null,
  };
}

const notStreamable = ({ servers }: ProjectParts, { placement }: ProjectRow, to: ServerRow): Promise<string[]> =>
  serviceWork(() => {
    const target = placeOf(to);
    return streamObstacles(servers.tenancyOf(placement), placement, servers.tenancyOf(target), target);
  });

/** An estimate of the bytes of a database that are copied in a second. */
const BYTES_PER_SECOND = 20_000_000;

/** @param why it is not streamed @param bytes of the project; null: unknown */
export function inWords(why: string, bytes: number | null): string {
  return bytes === null ? why : `${why} (writes are refused for about ${2 + Math.ceil(bytes / BYTES_PER_SECOND)} s)`;
}

/** @throws EngineError invalid_request naming the obstacles; database_unavailable if a server does not answer */
export function requireNoObstacles({ project, to, obstacles, unreachable }: MovePlan): void {
  if (unreachable !== null) throw unreachable;
  if (obstacles.length === 0) return;
  throw new EngineError(
    'invalid_request',
    `The project "${project.name}" cannot move to ${to.name}: ${obstacles.join('; ')}`,
  );
}

interface ServerReply<T> {
  readonly server: string;
  /** null: the server does not answer. */
  readonly found: T | null;
  readonly unreachable: EngineError | null;
}

async function ask<T>(server: string, question: () => Promise<T>): Promise<ServerReply<T>> {
  try {
    return { server, found: await question(), unreachable: null };
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'database_unavailable') throw error;
    return { server, found: null, unreachable: error };
  }
}

interface Source extends ProjectNeeds {
  readonly major: number;
  readonly bytes: number | null;
}

async function sourceOf({ servers }: ProjectParts, project: ProjectRow): Promise<Source> {
  const { name, placement } = project;
  servers.requireUp(placement);
  const tenancy = servers.tenancyOf(placement);
  const needs = await needsOf(tenancy, placement);
  const isArchiving = await tenancy.fleet?.archivesWal(placement.server);
  const archiving = isArchiving
    ? [`its write-ahead log is archived, which would end: cdp project archive ${name} off`]
    : [];
  return {
    ...needs,
    obstacles: [...needs.obstacles, ...archiving],
    major: await tenancy.major(),
    bytes: await tenancy.sizeOf(project),
  };
}

/** Requirements of the project that the target does not meet. */
async function missing(source: Source, target: Tenancy, to: ServerRow): Promise<string[]> {
  const major = await target.major();
  const offered = await target.extensions();
  const extensions = source.extensions.filter((name) => !offered.includes(name));
  const roles = await unknownRoles(source.roles, target, to);
  return [
    ...(major < source.major
      ? [`it lives on Postgres ${source.major}, and the target is ${major}: it must be the same or a later one`]
      : []),
    ...(extensions.length > 0 ? [`the target does not have the extensions ${extensions.join(', ')}`] : []),
    ...(source.schemas.length > 0 && !(await target.mayOwnSchemas())
      ? [`it has schemas of its own (${source.schemas.join(', ')}), which no project may have there`]
      : []),
    ...(roles.length > 0
      ? [`row security policies name roles that the target does not have: ${roles.join(', ')}`]
      : []),
  ];
}

async function unknownRoles(roles: readonly string[], target: Tenancy, to: ServerRow): Promise<string[]> {
  // The project's own server has only the roles that every project has.
  if (roles.length === 0 || target.fleet !== null) return [...roles];
  const found = await serviceWork(() =>
    target.serverOf({ server: to.name }).pool.query(sql`SELECT rolname FROM pg_roles WHERE rolname = ANY (${roles})`),
  );
  return roles.filter((role) => !found.some(([name]) => name === role));
}
