/** Prepares the source of a stream, and cleans up after it. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Fleet } from '../../embedded/fleet.js';
import { STREAM_SETTINGS } from '../../embedded/server-folder.js';
import { replaceFile } from '../../files.js';
import { ident, sql } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { inDatabase } from '../../tenancy/tenancy.js';
import type { ProjectDatabase } from '../copy/copy-database.js';

export const PUBLICATION = 'cdp_move';

/** The name must be unique on the server. The slot is temporary: it ends with its session, or a crash of the server. */
export const slotOf = ({ database }: Pick<Placement, 'database'>): string => `cdp_move_${database}`;

/** A project's own server must be restarted with wal_level = logical. Requests wait for the restart. */
export async function restartForStream({ tenancy, placement: { server } }: ProjectDatabase): Promise<void> {
  const { fleet } = tenancy;
  if (fleet === null) return;
  await replaceFile(await settingsOf(fleet, server), 'wal_level = logical\n');
  await fleet.stop(server);
}

/** Removes everything that a stream has left. A project's own server returns to its settings at the next start. */
export async function clearSource({ tenancy, placement }: ProjectDatabase): Promise<void> {
  await inDatabase(tenancy, placement, async (session) => {
    await session.query(
      sql`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = ${slotOf(placement)} AND active_pid IS NOT NULL`,
    );
    await session.query(sql`DROP PUBLICATION IF EXISTS ${ident(PUBLICATION)}`);
  });
  const { fleet } = tenancy;
  if (fleet !== null) await rm(await settingsOf(fleet, placement.server), { force: true });
}

const settingsOf = async (fleet: Fleet, server: string): Promise<string> =>
  join((await fleet.folderOf(server)).root, STREAM_SETTINGS);
