/** Requests and responses of operators' commands, used only on the admin socket. */
import { roundedSize } from '../disk-size.js';
import { counted } from '../message-text.js';
import { ABSOLUTE_PATH } from '../patterns.js';
import { type Static, STRICT, Type } from '../schema.js';
import { Labels } from './fields.js';

const AbsolutePath = Type.String({ pattern: ABSOLUTE_PATH });

/** Where to look for pg_dump and pg_restore: only in this folder, or in the folders of a PATH and the usual ones. */
const programs = { postgres_bin: Type.Nullable(AbsolutePath), path: Type.String() };

/** Maximum number of projects that a backup saves at once. */
export const MAX_JOBS = 16;

export const BackupBody = Type.Object(
  {
    file: AbsolutePath,
    project: Type.Nullable(Type.String()),
    format: Type.Nullable(Type.Enum(['physical', 'logical'])),
    jobs: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_JOBS })),
    ...programs,
  },
  STRICT,
);
export type BackupBody = Static<typeof BackupBody>;

export const FolderBackupBody = Type.Object(
  {
    folder: AbsolutePath,
    /** Begin anew although the folder is empty and had a backup. */
    is_new: Type.Boolean(),
    jobs: Type.Integer({ minimum: 1, maximum: MAX_JOBS }),
    archive_days: Type.Integer({ minimum: 1 }),
    ...programs,
  },
  STRICT,
);
export type FolderBackupBody = Static<typeof FolderBackupBody>;

export const RestoreBody = Type.Object(
  {
    file: AbsolutePath,
    project: Type.Nullable(Type.String()),
    as: Type.Nullable(Type.String()),
    at: Type.Nullable(Type.String()),
    missing: Type.Optional(Type.Boolean()),
    replace: Type.Optional(Type.Boolean()),
    check: Type.Optional(Type.Boolean()),
    server: Type.Optional(Type.String()),
    labels: Type.Optional(Labels),
    ...programs,
  },
  STRICT,
);
export type RestoreBody = Static<typeof RestoreBody>;

/** With the version of the program that asks. */
export const DoctorBody = Type.Object({ version: Type.String() }, STRICT);
export type DoctorBody = Static<typeof DoctorBody>;

export const ArchiveBody = Type.Object({ project: Type.String(), on: Type.Boolean() }, STRICT);
export type ArchiveBody = Static<typeof ArchiveBody>;

export interface TableRows {
  name: string;
  rows: number;
}

/** The part of a backup's manifest that a command reads. */
export interface BackupDone {
  readonly projects: readonly {
    readonly name: string;
    readonly bytes: number;
    /** Only for a logical backup. */
    readonly tables?: readonly TableRows[];
  }[];
  /** Projects that could not be saved. */
  readonly left_out: readonly { readonly name: string; readonly reason: string }[];
}

/** What a backup into a folder has done. */
export interface FolderBackupDone extends Pick<BackupDone, 'left_out'> {
  readonly projects: readonly {
    readonly name: string;
    readonly bytes: number;
    /** The folder had it already. */
    readonly unchanged: boolean;
  }[];
  /** Projects that no longer exist. */
  readonly removed: readonly string[];
}

export interface RestoreDone {
  readonly projects: readonly {
    readonly name: string;
    /** null: not counted, because the server's files were restored. */
    readonly tables: readonly TableRows[] | null;
    /** Messages about objects in the dump that this server does not accept. */
    readonly left_out: readonly string[];
    /** The pages that were already damaged when they were saved; null: none, or a dump. */
    readonly damage: string | null;
    /** Why its write-ahead log is not archived again, as it was when it was saved; null: it is, or it was not. */
    readonly not_archived: string | null;
  }[];
  readonly failed: readonly { readonly name: string; readonly reason: string }[];
}

/** What `cdp backup verify` has found. */
export interface BackupVerified {
  readonly projects: readonly {
    readonly name: string;
    /** null: only its files were read. */
    readonly tables: readonly TableRows[] | null;
  }[];
  /** For people; empty: the backup is whole. */
  readonly faults: readonly string[];
}

/** Such as `2 tables, 1 row`. */
export function tablesInWords(tables: readonly TableRows[]): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  return `${counted(tables.length, 'table')}, ${counted(rows, 'row')}`;
}

/** The saved content of a project: `2 tables, 1 row` for a dump, `28.5 MB` for files. */
export const contentOf = ({ tables, bytes }: BackupDone['projects'][number]): string =>
  tables === undefined ? roundedSize(bytes) : tablesInWords(tables);

/** The account that runs the command, percent-encoded. Trusted on the admin socket, and read nowhere else. */
export const ACCOUNT_HEADER = 'x-cdp-account';

/** The location of a project, for operators. */
export interface ProjectLocation {
  /** The project's id. */
  readonly id: string;
  readonly database: string;
  /** The folder id of the project's own server; null: it is on a server given by URL. */
  readonly folder: string | null;
  /** Whether its write-ahead log is archived; null: the operator archives that of its server. */
  readonly archive: 'on' | 'off' | 'failing' | null;
  /** When it was last saved into a backup folder; null: never. */
  readonly saved_at: string | null;
}
