/** Runs work on a project that no other process may work on meanwhile. */
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { tryWithProjectLock } from '../../tenancy/control/project-lock.js';
import { inUseElsewhere } from './project-errors.js';

/** How long to wait for another process that is creating, moving, repairing or deleting the same project. */
const WAIT_MS = 5_000;

/**
 * See {@link tryWithProjectLock}.
 * @throws EngineError request_in_flight if the other process takes longer; database_unavailable; what `work` throws
 */
export async function withProjectLock<T extends object>(
  control: ControlDatabase,
  { id, name }: Pick<ProjectRow, 'id' | 'name'>,
  work: (lost: AbortSignal) => Promise<T>,
): Promise<T> {
  const done = await tryWithProjectLock(control.address, id, work, WAIT_MS);
  if (done === null) throw inUseElsewhere(name);
  return done;
}
