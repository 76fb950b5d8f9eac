/**
 * Copies a project from one Postgres server to another, which may be of a newer major: the schema by pg_dump, the rows by COPY,
 * both of one snapshot. No client programs of Postgres need to be installed.
 */
import type { TableRows } from '../../contract/wire/operator.js';
import type { Placement } from '../../tenancy/placement.js';
import type { Tenancy } from '../../tenancy/tenancy.js';

/** A project's database. Its server runs. */
export interface Place {
  readonly tenancy: Tenancy;
  readonly placement: Placement;
}

export interface CopyOptions {
  /** What is written to it after the beginning is not copied, and nobody alters or drops a table meanwhile: they are locked. */
  readonly source: Place;
  /** As {@link Tenancy.create} makes it, brought up to the same schema version as the source. After a failure it is half filled. */
  readonly target: Place;
  readonly verify: Verification;
  /** Aborted: all sessions end at once, and with them their transactions. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: CopyProgress) => void;
}

/** `counts`: the schema and the number of rows in each table. `full`: the contents of each table, too. */
export type Verification = 'counts' | 'full';

/** Where a copy is. Reported at the start of each step, and about once for each MiB of rows. */
export interface CopyProgress {
  readonly step: 'schema' | 'rows' | 'indexes' | 'verification';
  /** `name`, or `schema.name` outside of the schema `data`; null: the step is about all of them. */
  readonly table: string | null;
  /** Of the table so far. */
  readonly rows: number;
  /** Of the table so far, as COPY's text. */
  readonly bytes: number;
}

export interface Copied {
  readonly tables: TableRows[];
  /** Rights given to roles that the target's server does not have, in words. */
  readonly left_out: string[];
}

/**
 * The roles of the source become those of the target; the service's own part is there already, but for its rows.
 * @throws CopyDiffers; Error with what to do; PostgresError, ConnectionLost; the signal's reason
 */
export function copyDatabase(options: CopyOptions): Promise<Copied> {
  return Promise.reject(new Error(`${options.verify}: not there yet`));
}

/**
 * Compares the two, for instance once more when nobody can write to the source any more.
 * @throws CopyDiffers
 */
export function verifyCopy(options: Omit<CopyOptions, 'onProgress'>): Promise<TableRows[]> {
  return Promise.reject(new Error(`${options.verify}: not there yet`));
}

/** The copy is not what the source is. */
export class CopyDiffers extends Error {
  constructor(
    /** In words, each beginning with the name of a table or another object. */
    readonly differences: readonly string[],
  ) {
    super(`The copy differs: ${differences.join('; ')}`);
  }
}
