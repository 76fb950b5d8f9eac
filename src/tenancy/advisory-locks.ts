/**
 * The advisory locks that the service takes by number (Postgres manual 13.3.5). A lock belongs to the database of its
 * session, and ends with the session. Three are missing here: that of the owner of a data folder
 * (`embedded/control-server.ts`), and two whose numbers are hashes: the lock of a project (`control/project-lock.ts`)
 * and that of an Idempotency-Key (`engine/write/idempotency.ts`).
 */
export const ADVISORY_LOCKS = {
  /** Control database, template or project: held during migrations. */
  migration: 4_014_252_901,
  /** Control database: held by the instance that prepares it. */
  start: 4_014_252_902,
  /**
   * Project: held until the end of a transaction that creates a table, so that two new names cannot differ only by
   * case.
   */
  newTable: 4_014_252_903,
  /** Template or project: held by the instance that migrates or repairs it. */
  repair: 4_014_252_907,
  /** The database in a server's URL: held by the instance that prepares the template. */
  template: 4_014_252_909,
  /** Project: held during a dump, so that no other uses the same role. */
  dump: 4_014_252_908,
  /**
   * The database in a server's URL: the seed for the hash of a project's database. Held while that is created or
   * dropped, so that a drop waits for a CREATE DATABASE that Postgres still runs after its client was killed.
   */
  database: 4_014_252_910,
} as const;
