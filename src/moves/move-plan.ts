/**
 * Checks whether a project can move to a server, and lists all obstacles. Changes no project; on a shared server it may
 * prepare the template.
 */
import { EngineError } from '../contract/errors.js';
import type { MoveMode } from '../contract/moves.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { isReady } from '../contract/projects.js';
import { serverName } from '../contract/servers.js';
import { serverRefOf, type ServerRow } from '../tenancy/control/server-rows.js';
import { serviceWork } from '../tenancy/postgres-errors.js';
import type { Tenancy } from '../tenancy/tenancy.js';
import { needsOf, type ProjectNeeds, roleConstants } from './needs.js';
import type { MoveServices } from './move-services.js';
import { streamObstacles } from './stream-obstacles.js';

/** Whether a project can move. */
interface MoveCheck {
  readonly row: ProjectRow;
  readonly to: ServerRow;
  /** The size of the project on disk; null: unknown. */
  readonly bytes: number | null;
  /** Obstacles as text; empty: the project can move. */
  readonly obstacles: readonly string[];
  /** The error if one of the servers does not answer; null: both answered. */
  readonly unreachable: EngineError | null;
  readonly sourceAnswers: boolean;
}

export interface MovePlan extends MoveCheck {
  /** What the move does not change, although it may not work on the target; it prevents nothing. */
  readonly warnings: readonly string[];
  /** Why it is copied although a stream was requested, and about how long that takes; null: it is not. */
  readonly fallback: string | null;
}

/**
 * A server that does not answer is an obstacle. @throws EngineError not_found; database_unavailable of the control
 * database
 */
export async function planMove(
  services: MoveServices,
  row: ProjectRow,
  server: string,
  mode: MoveMode,
): Promise<MovePlan> {
  const check = await checkMove(services, row, server);
  const { to, bytes, obstacles, sourceAnswers } = check;
  const from = serverName(row.placement);
  const isStreamed = mode === 'stream' && obstacles.length === 0;
  const obstaclesToStream = isStreamed ? await notStreamable(services, row, to) : [];
  const warnings = async () => (await askServer(from, () => warningsOf(services, row, to))).found ?? [];
  const fallback = obstaclesToStream.length > 0 ? fallbackText(obstaclesToStream.join('; '), bytes) : null;
  return { ...check, warnings: sourceAnswers ? await warnings() : [], fallback };
}

/** The part of {@link planMove} that decides whether the project can move at all. @throws EngineError as it does */
export async function checkMove(services: MoveServices, row: ProjectRow, server: string): Promise<MoveCheck> {
  const to = await services.serverNamed(server);
  const { placement } = row;
  const from = serverName(placement);
  const hasRoom = await services.control.servers.acceptsProject(to.name);
  const knownObstacles = [
    ...(isReady(row) ? [] : [`it is ${row.status}`]),
    ...(from === to.name ? [`it lives on ${to.name} already`] : []),
    ...(to.status === 'active' ? [] : [`the server ${to.name} is ${to.status}`]),
    ...(hasRoom || from === to.name ? [] : [`the server ${to.name} has reached its limit of projects`]),
  ];
  const source = await askServer(from, () => sourceOf(services, row));
  const target = await askServer(to.name, async () => {
    const tenancy = services.servers.tenancyOf(serverRefOf(to));
    const full = (await services.isFull(to)) ? [`the projects on ${to.name} have reached its size limit`] : [];
    return [...full, ...(source.found === null ? [] : await missingOn(source.found, tenancy))];
  });
  const replies = [source, target];
  const bytes = source.found?.bytes ?? null;
  const obstacles = [
    ...knownObstacles,
    ...replies.flatMap(({ unreachable, server: name }) =>
      unreachable === null ? [] : [`the server ${name} does not answer`],
    ),
    ...(source.found?.obstacles ?? []),
    ...(target.found ?? []),
  ];
  const unreachable = replies.find((reply) => reply.unreachable !== null)?.unreachable ?? null;
  return { row, to, bytes, obstacles, unreachable, sourceAnswers: source.found !== null };
}

async function warningsOf({ servers }: MoveServices, { placement }: ProjectRow, to: ServerRow): Promise<string[]> {
  if (servers.tenancyOf(serverRefOf(to)).keepsRoleNames(placement)) return [];
  const constants = await roleConstants(servers.tenancyOf(placement), placement);
  if (constants === null) {
    return [
      `the roles of the project have other names on ${to.name}; a table is locked, so whether its code names one of them as a constant is not known`,
    ];
  }
  return constants.map(
    (what) => `${what} names a role of the project as a constant, and the role has another name on ${to.name}`,
  );
}

const notStreamable = ({ servers }: MoveServices, { placement }: ProjectRow, to: ServerRow): Promise<string[]> =>
  serviceWork(() => streamObstacles(servers.tenancyOf(placement), placement, servers.tenancyOf(serverRefOf(to))));

/** An estimate of the bytes of a database that are copied in a second. */
const BYTES_PER_SECOND = 20_000_000;

/** @param why it is not streamed @param bytes of the project; null: unknown */
export function fallbackText(why: string, bytes: number | null): string {
  return bytes === null ? why : `${why} (writes are refused for about ${2 + Math.ceil(bytes / BYTES_PER_SECOND)} s)`;
}

/** @throws EngineError invalid_request naming the obstacles; database_unavailable if a server does not answer */
export function requireNoObstacles({ row, to, obstacles, unreachable }: MoveCheck): void {
  if (unreachable !== null) throw unreachable;
  if (obstacles.length === 0) return;
  throw new EngineError(
    'invalid_request',
    `The project "${row.name}" cannot move to ${to.name}: ${obstacles.join('; ')}`,
  );
}

interface ServerReply<T> {
  readonly server: string;
  /** null: the server does not answer. */
  readonly found: T | null;
  readonly unreachable: EngineError | null;
}

async function askServer<T>(server: string, question: () => Promise<T>): Promise<ServerReply<T>> {
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

async function sourceOf({ servers }: MoveServices, row: ProjectRow): Promise<Source> {
  const { name, placement } = row;
  servers.requireUp(placement);
  const tenancy = servers.tenancyOf(placement);
  const needs = await needsOf(tenancy, placement);
  const isArchiving = await tenancy.files?.archivesWal(placement.server);
  const archiving = isArchiving
    ? [`its write-ahead log is archived, which would end: cdp project archive ${name} off`]
    : [];
  return {
    ...needs,
    obstacles: [...needs.obstacles, ...archiving],
    major: await tenancy.major(),
    bytes: await tenancy.sizeOf(row),
  };
}

/** Requirements of the project that the target does not meet. */
async function missingOn(source: Source, target: Tenancy): Promise<string[]> {
  const major = await target.major();
  const offered = await target.extensions();
  const extensions = source.extensions.filter((name) => !offered.includes(name));
  const otherRoles = source.roles.length === 0 ? [] : await target.otherRoles(source.roles);
  const roles = source.roles.filter((role) => !otherRoles.includes(role));
  return [
    ...(major < source.major
      ? [`it lives on Postgres ${source.major}, and the target is ${major}: it must be the same or a later one`]
      : []),
    ...(extensions.length > 0 ? [`the target does not have the extensions ${extensions.join(', ')}`] : []),
    ...(source.schemas.length > 0 && !(await target.allowsOwnSchemas())
      ? [`it has schemas of its own (${source.schemas.join(', ')}), which no project may have there`]
      : []),
    ...(roles.length > 0
      ? [`row security policies or grants name roles that the target does not have: ${roles.join(', ')}`]
      : []),
  ];
}
