/**
 * `cdp server remove NAME --lost`: removes a server that will not come back, and everything about it in the control
 * database.
 */
import { EngineError } from '../../contract/errors.js';
import { DEFAULT_SERVER, isOn } from '../../contract/servers.js';
import type { ServerRow } from '../../tenancy/control/server-rows.js';
import type { Origin } from '../audit/audit.js';
import { serverNamed } from '../projects/choose-server.js';
import type { Engine } from '../engine.js';
import { checkNow, removeServer, setServer } from './change-servers.js';

/**
 * Deletes the projects that lived there, with their tokens, and ends the moves to and from there. Does not contact the
 * server, except to see that it does not answer.
 * @returns the server as it was, and the names of the projects
 * @throws EngineError not_found; invalid_request if it answers; request_in_flight while one of its projects is being
 * moved or deleted: the next attempt continues; database_unavailable, outcome_unknown
 */
export async function removeLostServer(
  engine: Engine,
  name: string,
  by: Origin,
): Promise<{ server: ServerRow; deleted: string[] }> {
  const server = await serverNamed(engine.control.servers, name);
  if (name !== DEFAULT_SERVER && (await checkNow(engine, server)).facts !== null) {
    throw new EngineError('invalid_request', `The server "${name}" answers, so it is not lost`, {
      hint: 'Move or delete its projects, then remove it without --lost.',
    });
  }
  const deleted: string[] = [];
  if (name !== DEFAULT_SERVER) {
    // No new project may be placed there meanwhile.
    await setServer(engine, name, { status: 'closed' }, by);
    for (const { name: project } of (await engine.projects.list()).filter(isOn(name))) {
      await engine.deleteProject(project, by, name);
      deleted.push(project);
    }
    await engine.moves.recover(name);
  }
  return { server: await removeServer(engine, name, by), deleted };
}
