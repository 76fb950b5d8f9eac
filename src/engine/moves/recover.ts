/**
 * Settles a move that has failed, was canceled, or lost its process: finishes it if the project already lives on the
 * target, and undoes it otherwise. Any step may have been done before, and another process may be doing the same.
 */
import { clearSource } from '../../backup/stream/stream-source.js';
import type { MoveRow } from '../../tenancy/control/move-rows.js';
import { lowerFence } from '../../tenancy/fence.js';
import { serverName } from '../../contract/servers.js';
import { placeOf, type ServerRows } from '../../tenancy/control/server-rows.js';
import type { Placement } from '../../tenancy/placement.js';
import { serviceWork } from '../../tenancy/service-work.js';
import { dropDumpRole } from '../../backup/logical/dump-role.js';
import type { ProjectParts } from '../projects/project-parts.js';

/** The reason if the move's process cannot give one. */
const INTERRUPTED = 'The process that carried it out has ended, or lost the control database';

/**
 * @param lost a server that will not come back: its contents are ignored
 * @returns whether the project lives on the target
 * @throws EngineError database_unavailable: the next attempt continues
 */
export async function recover(
  parts: ProjectParts,
  move: MoveRow,
  reason = INTERRUPTED,
  lost: string | null = null,
): Promise<boolean> {
  const { servers } = parts;
  const { moves } = parts.control;
  const { id, source, target } = move;
  const drop = async (place: Placement): Promise<void> => {
    if (serverName(place) !== lost) await serviceWork(() => servers.tenancyOf(place).drop(place));
  };
  // From here on nobody can switch. If the switch has already happened, but its response was lost, the row says so.
  if (await moves.undo(id, reason)) {
    await undo(parts, move, drop);
    return false;
  }
  const state = (await moves.get(id))?.state;
  if (state === 'switched') {
    await drop(source);
    await moves.end(id, 'switched', 'done');
    return true;
  }
  // Another process has undone it, perhaps while this one was still creating the target.
  if (state !== 'done' && (await isThere(parts.control.servers, target))) await drop(target);
  return state === 'done';
}

/** False if the server has been removed: another process took it for lost. */
async function isThere(servers: ServerRows, { server, added }: Placement): Promise<boolean> {
  if (added === null) return true;
  const row = await servers.get(server);
  return row !== null && placeOf(row).added?.addedAt === added.addedAt;
}

/** First the project accepts writes again, since the target's server may not answer. */
async function undo(
  { control: { moves }, servers }: ProjectParts,
  { id, source, target, mode }: MoveRow,
  drop: (place: Placement) => Promise<void>,
): Promise<void> {
  const from = servers.tenancyOf(source);
  await serviceWork(() => lowerFence(from, source, () => moves.isAt(id, 'undoing')));
  await moves.unfence(id);
  if (mode === 'stream') await serviceWork(() => clearSource({ tenancy: from, placement: source }));
  await drop(target);
  await serviceWork(() => dropDumpRole(from, source));
  await moves.end(id, 'undoing', 'undone');
}
