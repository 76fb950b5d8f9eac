/** What the operator's commands say and hear on the admin socket alone. */
import { roundedSize } from '../disk-size.js';
import { counted } from '../message-text.js';
import { ABSOLUTE_PATH } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';
import { Labels } from './labels.js';

/** `problem`: the service does not do what it promises. `warning`: it does, and something speaks against it lasting. */
const HEALTH = ['ok', 'warning', 'problem'] as const;
export type Health = (typeof HEALTH)[number];

export const Finding = Type.Object({
  subject: Type.String({ description: 'What was checked: `Postgres`, `durability`, …' }),
  health: Type.Enum(HEALTH),
  found: Type.String({ description: 'What the check found, in words.' }),
  advice: Type.Nullable(Type.String({ description: 'What to do about it; null if there is nothing to do.' })),
});
export type Finding = Static<typeof Finding>;

const AbsolutePath = Type.String({ pattern: ABSOLUTE_PATH });

/**
 * Where pg_dump and pg_restore are looked for: this folder alone, or else the folders of a PATH and the usual places.
 */
const programs = { postgres_bin: Type.Nullable(AbsolutePath), path: Type.String() };

/** Projects that a backup saves at once. */
export const MOST_JOBS = 16;

export const BackupBody = Type.Object(
  {
    file: AbsolutePath,
    project: Type.Nullable(Type.String()),
    format: Type.Nullable(Type.Enum(['physical', 'logical'])),
    jobs: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST_JOBS })),
    ...programs,
  },
  STRICT,
);
export type BackupBody = Static<typeof BackupBody>;

export const RestoreBody = Type.Object(
  {
    file: AbsolutePath,
    project: Type.Nullable(Type.String()),
    as: Type.Nullable(Type.String()),
    at: Type.Nullable(Type.String()),
    missing: Type.Optional(Type.Boolean()),
    server: Type.Optional(Type.String()),
    labels: Type.Optional(Labels),
    ...programs,
  },
  STRICT,
);
export type RestoreBody = Static<typeof RestoreBody>;

export const ArchiveBody = Type.Object({ project: Type.String(), on: Type.Boolean() }, STRICT);
export type ArchiveBody = Static<typeof ArchiveBody>;

export interface TableRows {
  name: string;
  rows: number;
}

/** As much of a backup's manifest as a command reads. */
export interface BackupDone {
  readonly projects: readonly {
    readonly name: string;
    readonly bytes: number;
    /** Of a dump. */
    readonly tables?: readonly TableRows[];
  }[];
  /** Projects that could not be saved. */
  readonly left_out: readonly { readonly name: string; readonly reason: string }[];
}

export interface RestoreDone {
  readonly projects: readonly {
    readonly name: string;
    /** null: not counted, as the files of the server were restored. */
    readonly tables: readonly TableRows[] | null;
    /** What the dump holds and this server does not accept, in words. */
    readonly left_out: readonly string[];
  }[];
  readonly failed: readonly { readonly name: string; readonly reason: string }[];
}

/** `2 tables, 1 row` */
export function described(tables: readonly TableRows[]): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  return `${counted(tables.length, 'table')}, ${counted(rows, 'row')}`;
}

/** What was saved of a project: `2 tables, 1 row` of a dump, `28.5 MB` of files. */
export const contentOf = ({ tables, bytes }: BackupDone['projects'][number]): string =>
  tables === undefined ? roundedSize(bytes) : described(tables);

/** The account that a command runs as, percent-encoded. It is believed on the admin socket and read nowhere else. */
export const ACCOUNT_HEADER = 'x-cdp-account';

/** Where an operator finds a project. */
export interface Placement {
  /** Of the project. */
  readonly id: string;
  readonly database: string;
  /** The id of the folder of its own server; null: it is on a server by address. */
  readonly folder: string | null;
}
