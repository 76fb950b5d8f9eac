/** Moves of projects between servers. */

/**
 * The steps of a move, in order: the target is made; writes end; rows are copied; the copy is compared. With `switched` the project
 * lives on the target, and the source is dropped until the move is `done`. Whatever fails before it is undone: the project stays where
 * it was, and the target is dropped.
 */
export const MOVE_STATES = [
  'preparing',
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

/** `counts`: schema, numbers of rows, sequences. `full`: hashes of the rows of each table, in whatever order, and of large objects, too. */
export const VERIFICATIONS = ['counts', 'full'] as const;
export type Verification = (typeof VERIFICATIONS)[number];
