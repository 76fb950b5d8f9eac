/** The end of a restore, which is Postgres's: it replays the log, begins a new timeline and is an ordinary server. */
import { join } from 'node:path';
import { exists } from '../../files.js';
import { readControlFile } from './control-file.js';

/** In the data folder, while there is something to replay (Postgres manual 19.5.5). */
export const RECOVERY_SIGNAL = 'recovery.signal';

/**
 * In the data folder: settings for the replay. The configuration of a server that may be a restored one ends with
 * `include_if_exists` and the path of this file. Without {@link RECOVERY_SIGNAL} they have no effect.
 */
export const RECOVERY_SETTINGS = 'recovery-settings.conf';

/** null: what is in the backup is replayed, and nothing else. */
export type Recovery = {
  /** The archive's folder, which `checkArchive` has looked at. */
  readonly archive: string;
  /** Transactions that committed later are left out; null: to the end. */
  readonly until: Date | null;
} | null;

/**
 * The timeline is the one of the backup: an archive is of one server, which never changes it. Before the end nobody can log in, so
 * a server that takes connections is restored.
 */
export function recoverySettings(recovery: Recovery): string {
  const { archive = null, until = null } = recovery ?? {};
  const settings = {
    hot_standby: 'off',
    recovery_target_timeline: 'current',
    // Postgres insists on a command. This one finds nothing, and what is in pg_wal is used.
    restore_command: archive === null ? 'exit 1' : restoreCommand(archive),
    ...(until === null ? {} : { recovery_target_time: timestamp(until), recovery_target_action: 'promote' }),
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${quoted(value)}\n`);
  return lines.join('');
}

/** Names of time zones, such as Z, are not known when settings are read. */
const timestamp = (time: Date): string => time.toISOString().replace('T', ' ').replace('Z', '+00');

/** For `restore_command`: a shell gets it once Postgres has replaced %f and %p. */
export const restoreCommand = (archive: string): string =>
  `cp ${`'${archive.replaceAll("'", "'\\''")}'`.replaceAll('%', '%%')}/%f "%p"`;

/** A value of postgresql.conf (manual 19.1.2), where a backslash escapes as in a C string and a value stays on its line. */
const quoted = (value: string): string => `'${value.replace(/['\\]/g, '\\$&').replaceAll('\n', '\\n')}'`;

/** Whether the server of the folder has replayed what it was given and goes on by itself. */
export async function isRecovered(dataFolder: string): Promise<boolean> {
  if (await exists(join(dataFolder, RECOVERY_SIGNAL))) return false;
  return (await readControlFile(dataFolder)).state === 'in production';
}
