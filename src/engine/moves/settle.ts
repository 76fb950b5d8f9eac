/**
 * What is left to do of a move that has failed, was canceled, or lost its process: it is undone, or finished if the project lives on
 * the target already. Every step may have been done before.
 */
import type { MoveRow } from '../../tenancy/move-rows.js';
import { lowerFence } from '../../tenancy/fence.js';
import { serviceWork } from '../../tenancy/service-work.js';
import type { ProjectParts } from '../project-parts.js';

/** Why a move ended, if its process cannot say. */
const INTERRUPTED = 'The process that carried it out has ended, or lost the control database';

/** By whoever holds the project's lock. @throws EngineError database_unavailable: the next attempt goes on */
export async function settle(parts: ProjectParts, move: MoveRow, reason = INTERRUPTED): Promise<void> {
  // Nobody can switch from here on, unless it is too late. After a switch whose answer was lost, the row says which of the two it is.
  if (await parts.moves.undo(move.id, reason)) await undo(parts, move);
  else if ((await parts.moves.get(move.id))?.state === 'switched') await finish(parts, move);
}

/** The project takes writes again first: the target's server may not answer. */
async function undo({ moves, servers }: ProjectParts, { id, source, target }: MoveRow): Promise<void> {
  await serviceWork(() => lowerFence(servers.tenancyOf(source), source));
  await moves.unfence(id);
  await serviceWork(() => servers.tenancyOf(target).drop(target));
  await moves.end(id, 'undoing', 'undone');
}

/** Of a move that has switched: drops the source. */
export async function finish({ moves, servers }: ProjectParts, { id, source }: MoveRow): Promise<void> {
  await serviceWork(() => servers.tenancyOf(source).drop(source));
  await moves.end(id, 'switched', 'done');
}
