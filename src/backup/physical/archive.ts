/**
 * The log of one server, kept for restores to a time: a folder with each finished segment, and a file that says whose they are. Servers
 * are copies of one template, so their segments do not tell them apart, and those of another would be replayed into nonsense.
 */
import { chmod, lchown, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { exists, hasCode, isMissing, readSmallFile, unique } from '../../files.js';
import { type LoginOptions, startupOptions, withClient } from '../../postgres/server.js';
import { parseLsn, segmentName, segmentOf } from './wal.js';

const OWNER = 'server';

/**
 * Before each start of a server that archives. The folder may be there.
 * @throws Error where it is another server's
 */
export async function prepareArchive(
  folder: string,
  serverId: string,
  { uid, gid }: { uid: number; gid: number },
): Promise<void> {
  await makeFolder(join(folder, '..'), 0o711);
  await makeFolder(folder, 0o700);
  const owner = join(folder, OWNER);
  if (await exists(owner)) await requireOwner(folder, serverId);
  else await writeOwner(owner, serverId, { uid, gid });
  await lchown(folder, uid, gid);
  // Copies that the end of an archiver left half done.
  for (const name of await readdir(folder)) if (name.startsWith('archtemp.')) await rm(join(folder, name));
}

/** Whatever the umask is: the account of a server has to get through the upper one. */
async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path);
    await chmod(path, mode);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

/** Whole or absent, also after a power cut. Never through a link that the server's account has made. */
async function writeOwner(path: string, serverId: string, { uid, gid }: { uid: number; gid: number }): Promise<void> {
  const draft = `${path}.${unique()}`;
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(`${serverId}\n`);
    await file.chown(uid, gid);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, path);
}

/**
 * Settings that take effect at a start. The module is part of Postgres (manual F.5) and bundled: it writes under another name, flushes,
 * renames, takes a segment again that it has already, and refuses one of the same name with another content. A command
 * would be a shell for each MB of log, with the same to do in its language.
 */
export const archiveSettings = (folder: string): Readonly<Record<string, string>> => ({
  archive_mode: 'on',
  archive_library: 'basic_archive',
  'basic_archive.archive_directory': folder,
});

/** Waits until everything that has been committed is in the archive, and that it can be told to be all until now. */
export async function archiveAll(folder: string, login: LoginOptions, signal: AbortSignal): Promise<void> {
  const options = startupOptions({ search_path: 'pg_catalog', default_transaction_read_only: 'off' });
  const segment = await withClient(
    { ...login, application_name: 'cdp backup', options, query_timeout: 60_000 },
    async (client) => {
      // A replay stops at the first commit after its time: without one it would not know that it has seen all before.
      await client.query('SELECT pg_current_xact_id()');
      const { rows } = await client.query<{ name: string }>(
        // The place after a switch may be the first of the next segment, whose name this is not.
        'SELECT pg_walfile_name(pg_switch_wal() - 1) AS name',
      );
      return rows[0]?.name ?? '';
    },
    signal,
  );
  for (const deadline = Date.now() + 60_000; !(await exists(join(folder, segment)));) {
    if (Date.now() > deadline) throw new Error(`The server does not archive its log into ${folder}`);
    await sleep(50, undefined, { signal });
  }
}

interface Wanted {
  /** Of the server that the backup was made of. */
  readonly serverId: string;
  readonly walStart: string;
  readonly timeline: number;
  readonly segmentBytes: number;
  readonly endedAt: Date;
  /** null: as far as the archive goes. */
  readonly until: Date | null;
}

/**
 * Before a replay: whether it can get from a backup to a time.
 * @throws Error that says what is missing
 */
export async function checkArchive(folder: string, wanted: Wanted): Promise<void> {
  const { serverId, walStart, timeline, segmentBytes, endedAt, until } = wanted;
  await requireOwner(folder, serverId);
  if (until !== null && until < endedAt) {
    throw new Error(
      `The backup ended at ${endedAt.toISOString()}, after ${until.toISOString()}: for that time an earlier one is needed`,
    );
  }
  const names = (await readdir(folder)).filter((name) => /^[0-9A-F]{24}$/.test(name));
  const last = names.sort().at(-1) ?? '';
  let reached: Date | null = null;
  for (let segment = segmentOf(parseLsn(walStart), segmentBytes); ; segment++) {
    const name = segmentName(timeline, segment, segmentBytes);
    const found = await stat(join(folder, name)).catch(missing);
    if (found === null) {
      if (reached === null)
        throw new Error(`${folder} lacks ${name}, the segment of the log that the backup begins in`);
      const isGap = name < last;
      if (until === null ? !isGap : until <= reached) return;
      if (isGap)
        throw new Error(`${folder} lacks ${name}, so the log can be replayed to ${reached.toISOString()} at most`);
      throw new Error(`The log in ${folder} ends at ${reached.toISOString()}`);
    }
    if (found.size !== segmentBytes) {
      throw new Error(`${name} in ${folder} is not whole: it has ${found.size} of ${segmentBytes} bytes`);
    }
    // When it was finished: everything in it was written before.
    reached = found.mtime;
    if (until !== null && until <= reached) return;
  }
}

async function requireOwner(folder: string, serverId: string): Promise<void> {
  const owner = (await readSmallFile(join(folder, OWNER)).catch(missing))?.toString().trim();
  if (owner === undefined) throw new Error(`There is no archive of a server's log in ${folder}`);
  if (owner !== serverId) {
    throw new Error(
      `The log in ${folder} is of the server ${owner}, not of ${serverId}: it must not be replayed there`,
    );
  }
}

function missing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}
