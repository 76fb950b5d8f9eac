/** Chooses the server for a new project. */
import { EngineError } from '../../contract/errors.js';
import { isOn, type PlacementRequest } from '../../contract/servers.js';
import type { Placement } from '../../tenancy/placement.js';
import { placeOf, type ServerRow, type ServerRows } from '../../tenancy/control/server-rows.js';
import { isProjectName as isServerName } from '../../contract/names.js';
import type { ProjectParts } from './project-parts.js';
import { sizesOf } from './sizes.js';

/** The servers that can take the project, the best first. @throws EngineError not_found, database_unavailable */
export async function candidates(rows: ServerRows, { server, labels = {} }: PlacementRequest): Promise<ServerRow[]> {
  if (server === undefined) return rows.candidates(labels);
  const found = await serverNamed(rows, server);
  return found.status === 'active' ? [found] : [];
}

/** @throws EngineError not_found, database_unavailable */
export async function serverNamed(rows: ServerRows, name: string): Promise<ServerRow> {
  const found = isServerName(name) ? await rows.get(name) : null;
  if (found === null) throw new EngineError('not_found', `There is no server "${name.slice(0, 63)}"`);
  return found;
}

type Parts = Pick<ProjectParts, 'control' | 'servers'>;

/** Names for a new project on the server; null if it is full. @throws EngineError database_unavailable */
export const placementOn = async (server: ServerRow, parts: Parts): Promise<Placement | null> =>
  (await isFull(server, parts)) ? null : parts.servers.tenancyOf(placeOf(server)).newPlacement();

/** Whether the projects on a server have reached its size limit. @throws EngineError database_unavailable */
export async function isFull(server: ServerRow, parts: Parts): Promise<boolean> {
  parts.servers.requireUp(placeOf(server));
  return server.maxBytes !== null && (await bytesStoredOn(server, parts)) >= server.maxBytes;
}

/** Bytes of all projects on a server. @throws EngineError database_unavailable */
export async function bytesStoredOn({ name }: ServerRow, { control, servers }: Parts): Promise<number> {
  const projects = (await control.projects.list()).filter(isOn(name));
  return [...(await sizesOf(servers, projects)).values()].reduce((sum, bytes) => sum + bytes, 0);
}

export function noServer({ server, labels = {} }: PlacementRequest): EngineError {
  const wanted = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const message =
    server === undefined
      ? `No server${wanted.length > 0 ? ` with ${wanted.join(', ')}` : ''} accepts another project`
      : `The server "${server}" accepts no more projects`;
  return new EngineError('invalid_request', message, {
    hint: 'cdp server list shows which are full, draining or closed; cdp server check measures their sizes.',
  });
}
