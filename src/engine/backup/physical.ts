/** A physical backup of a project as members of a backup's file, and back: for projects that have a server of their own. */
import { EngineError } from '../../contract/errors.js';
import { checkArchive } from '../../backup/physical/archive.js';
import type { Add, Copied } from '../../backup/physical/data-folder.js';
import { type BackupFile, layOut } from '../../backup/physical/lay-out.js';
import type { Recovery } from '../../backup/physical/recovery.js';
import { copyRunning } from '../../backup/physical/running.js';
import { copyStopped } from '../../backup/physical/stopped.js';
import type { ProjectRow } from '../../postgres/control-rows.js';
import type { LoginOptions } from '../../postgres/server.js';
import type { Origin } from '../audit/audit.js';
import { dataOf, type PhysicalProject } from './manifest.js';

/** What a backup has to know of a server. */
export interface OwnServer {
  readonly id: string;
  /** As it reports it: `18.4`. */
  readonly version: string;
  readonly localeProvider: string;
  readonly locale: string;
  readonly dataFolder: string;
  /** Of the superuser; null: the server is stopped. */
  readonly login: LoginOptions | null;
}

interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** The servers of this machine, as backup and restore need them. */
export interface OwnServers {
  /** Major version of the Postgres that restored projects run on. */
  readonly major: number;
  /** Keeps a project's server as it is, running or stopped, for the length of `work`. */
  readonly hold: <T>(project: ProjectRow, work: (server: OwnServer) => Promise<T>) => Promise<T>;
  /** The archive of a server. If the server is there, the folder has all that has been committed by now. */
  readonly archive: (serverId: string) => Promise<string>;
  /**
   * Makes a project with a server of its own, whose data folder `fill` lays out, and waits until the server is recovered.
   * @throws what `fill` throws, or why the server does not start; nothing of the project is left then
   */
  readonly adopt: (name: string, by: Origin, fill: (place: Place) => Promise<'active' | 'inactive'>) => Promise<void>;
}

/** Where a project is restored to. */
export interface Place {
  /** Of the project. */
  readonly id: string;
  /** Does not exist. */
  readonly dataFolder: string;
  readonly account: Account;
}

const PLATFORM = `${process.platform}-${process.arch}`;

/** @param add takes a member of the backup's file */
export async function savePhysically(
  name: string,
  server: OwnServer,
  add: Add,
  signal: AbortSignal,
): Promise<PhysicalProject> {
  const { id, version, localeProvider, locale, dataFolder, login } = server;
  const addFile: Add = (path, content) => add(`${dataOf(name)}${path}`, content);
  const copied: Copied =
    login === null
      ? await copyStopped(dataFolder, addFile, signal)
      : await copyRunning({ dataFolder, login, signal }, addFile);
  return {
    kind: 'physical',
    name,
    bytes: copied.bytes,
    server_id: id,
    postgres: Number.parseInt(version),
    version,
    platform: PLATFORM,
    locale_provider: localeProvider,
    locale,
    wal_start: copied.walStart,
    wal_stop: copied.walStop,
    timeline: copied.timeline,
    wal_segment_bytes: copied.segmentBytes,
    checksum_version: copied.checksumVersion,
    catalog_version: copied.catalogVersion,
    started_at: copied.startedAt.toISOString(),
    ended_at: copied.endedAt.toISOString(),
    folders: [...copied.folders],
  };
}

/** @param major of the Postgres here; null: projects have no server of their own. @throws EngineError where the files are no good */
export function refuseElsewhere({ name, platform, postgres }: PhysicalProject, major: number | null): void {
  if (platform === PLATFORM && postgres === major) return;
  const here = major === null ? 'projects have no server of their own' : `${PLATFORM} with Postgres ${major}`;
  throw new EngineError(
    'invalid_request',
    `The backup of "${name}" was made on ${platform} with Postgres ${postgres}; here is ${here}`,
    { hint: 'Make a logical backup of it where it is, which goes anywhere: cdp backup --format logical' },
  );
}

/** How a server gets to a time, or to the end of its backup. @throws Error that says what is missing */
export async function recoveryOf(saved: PhysicalProject, at: Date | null, servers: OwnServers): Promise<Recovery> {
  if (at === null) return null;
  const archive = await servers.archive(saved.server_id);
  await checkArchive(archive, {
    serverId: saved.server_id,
    walStart: saved.wal_start,
    timeline: saved.timeline,
    segmentBytes: saved.wal_segment_bytes,
    endedAt: new Date(saved.ended_at),
    until: at,
  });
  return { archive, until: at };
}

/** @param members names of all that the backup's file holds */
export async function restorePhysically(
  saved: PhysicalProject,
  members: Iterable<string>,
  read: (member: string) => BackupFile['content'],
  { dataFolder, account }: Place,
  recovery: Recovery,
  signal: AbortSignal,
): Promise<void> {
  const files = function* (): Generator<BackupFile> {
    for (const member of membersOf(saved, members)) {
      signal.throwIfAborted();
      yield { path: member.slice(dataOf(saved.name).length), content: read(member) };
    }
  };
  await layOut(dataFolder, { folders: saved.folders, files: files(), recovery, account });
}

export const membersOf = ({ name }: PhysicalProject, members: Iterable<string>): string[] =>
  [...members].filter((member) => member.startsWith(dataOf(name)));
