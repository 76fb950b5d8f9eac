/** Moves of projects between servers. */

/**
 * How a project moves. `copy`: while nobody writes. `stream`: while it is written to, so that writes have to wait for
 * what is left at the end; what cannot be streamed is copied.
 */
export const MOVE_MODES = ['copy', 'stream'] as const;
export type MoveMode = (typeof MOVE_MODES)[number];

/**
 * The steps of a move, in order: the target is made; rows are streamed, if it moves so; writes end; rows, or those that
 * are left, are copied; the copy is compared. With `switched` the project lives on the target, and the source is
 * dropped until the move is `done`. A failure before it is undone: the project stays where it was, and the target is
 * dropped.
 */
export const MOVE_STATES = [
  'preparing',
  'streaming',
  'fencing',
  'copying',
  'verifying',
  'switched',
  'done',
  'undoing',
  'undone',
] as const;
export type MoveState = (typeof MOVE_STATES)[number];

/** Of a move that has something left to do. */
export const OPEN_STATES = MOVE_STATES.filter((state) => state !== 'done' && state !== 'undone');

/**
 * `counts`: schema, numbers of rows, sequences. `full`: hashes of the rows of each table, in any order, and of large
 * objects, too.
 */
export const VERIFICATIONS = ['counts', 'full'] as const;
export type Verification = (typeof VERIFICATIONS)[number];
