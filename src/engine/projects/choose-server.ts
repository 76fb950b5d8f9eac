/** Chooses the server for a new project, by labels, room and size. */
import { EngineError } from '../../contract/errors.js';
import { isServerName } from '../../contract/names.js';
import { isOn, type PlacementRequest } from '../../contract/servers.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import { serverRefOf, type ServerRow, type ServerRows } from '../../tenancy/control/server-rows.js';
import type { Placement } from '../../tenancy/placement.js';
import type { Servers } from '../../tenancy/servers.js';

/** What the choice of a server needs of the service. */
interface ServerServices {
  readonly control: ControlDatabase;
  readonly servers: Servers;
}

/** The servers that can take the project, the best first. @throws EngineError not_found, database_unavailable */
export async function candidates(rows: ServerRows, { server, labels = {} }: PlacementRequest): Promise<ServerRow[]> {
  if (server === undefined) return rows.candidates(labels);
  const requested = await serverNamed(rows, server);
  return requested.status === 'active' ? [requested] : [];
}

/** @throws EngineError not_found, database_unavailable */
export async function serverNamed(rows: ServerRows, name: string): Promise<ServerRow> {
  const row = isServerName(name) ? await rows.get(name) : null;
  if (row === null) throw new EngineError('not_found', `There is no server "${name.slice(0, 63)}"`);
  return row;
}

/** Names for a new project on the server; null if it is full. @throws EngineError database_unavailable */
export const placementOn = async (server: ServerRow, services: ServerServices): Promise<Placement | null> =>
  (await isFull(server, services)) ? null : services.servers.tenancyOf(serverRefOf(server)).newPlacement();

/** Whether the projects on a server have reached its size limit. @throws EngineError database_unavailable */
export async function isFull(server: ServerRow, services: ServerServices): Promise<boolean> {
  services.servers.requireUp(serverRefOf(server));
  return server.maxBytes !== null && (await bytesStoredOn(server, services)) >= server.maxBytes;
}

/** Bytes of all projects on a server. @throws EngineError database_unavailable */
export async function bytesStoredOn({ name }: ServerRow, { control, servers }: ServerServices): Promise<number> {
  const projects = (await control.projects.list()).filter(isOn(name));
  return [...(await sizesOf(servers, projects)).values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** Bytes on disk by project. A project whose size cannot be measured now is left out. */
export async function sizesOf(servers: Servers, projects: readonly ProjectRow[]): Promise<Map<string, number>> {
  const sizeOf = async (project: ProjectRow) => servers.tenancyOf(project.placement).sizeOf(project);
  const sizes = await Promise.all(
    // The size is shown as unknown.
    projects.map(async (project) => [project.id, await sizeOf(project).catch(() => null)] as const),
  );
  return new Map(sizes.filter((entry): entry is [string, number] => entry[1] !== null));
}

/**
 * Measures all projects.
 * @returns the bytes of the projects on a server, by its name; null if one of them cannot be measured now
 */
export async function serverSizes({ control, servers }: ServerServices): Promise<(server: string) => number | null> {
  const projects = await control.projects.list();
  const sizes = await sizesOf(servers, projects);
  return (server) =>
    projects.filter(isOn(server)).reduce<number | null>((sum, { id }) => {
      const size = sizes.get(id);
      return sum === null || size === undefined ? null : sum + size;
    }, 0);
}
