/**
 * The advisory locks that the service takes by number (Postgres manual 13.3.5). A lock is one of the database that its
 * session is in, and ends with the session. Two kinds have no number here, since theirs is a hash: that of a project at
 * work (`control.ts`) and that of an Idempotency-Key (`engine/write/idempotency.ts`).
 */
export const ADVISORY_LOCKS = {
  /** Control database, template or project: held while migrations are applied to it. */
  migration: 4_014_252_901,
  /** Control database: one instance at a time prepares it. Held for the whole preparation. */
  start: 4_014_252_902,
  /**
   * Project: two new table names that differ by case alone must not slip past each other. Held until the transaction
   * ends.
   */
  newTable: 4_014_252_903,
  /** Template or project: one instance at a time brings it up to date or repairs it. Held for the whole of the work. */
  repair: 4_014_252_907,
  /**
   * The database that a server's URL names: one instance at a time prepares the template there. Held for the whole
   * preparation.
   */
  template: 4_014_252_909,
  /** Project: two dumps do not share its role for dumps. Held for the whole dump. */
  dump: 4_014_252_908,
  /**
   * The database that a server's URL names: the seed for the hash of a project's database. Held while it is created and
   * while it is dropped, so that nothing is left of a creation that goes on in Postgres after its process was killed.
   */
  database: 4_014_252_910,
} as const;
