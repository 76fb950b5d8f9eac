/** Moves of projects between servers. */

/**
 * How a project moves. `copy`: writes are refused during the copy. `stream`: writes continue, and are refused only
 * while the last changes are copied. What cannot be streamed is copied.
 */
export const MOVE_MODES = ['copy', 'stream'] as const;
export type MoveMode = (typeof MOVE_MODES)[number];

/**
 * The states of a move, in order. The target is created; in mode `stream`, rows are streamed; writes are fenced off;
 * the rows, or the remaining ones, are copied, and the copy is compared with the source; in `verifying`, the reads of
 * the source end. From `switched` on, the project lives on the target; the source is then dropped, and the move is
 * `done`. A failure before `switched` is undone: the project stays where it was, and the target is dropped.
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

/** The states before `switched`, in which a move can be canceled. */
export const CANCELABLE_STATES: readonly MoveState[] = MOVE_STATES.slice(0, MOVE_STATES.indexOf('switched'));

/** The states of a move that has not ended. */
export const OPEN_STATES = MOVE_STATES.filter((state) => state !== 'done' && state !== 'undone');

/**
 * `counts`: compares the schema, numbers of rows and sequences. `full`: also compares hashes of the rows of each table,
 * in any order, and of large objects.
 */
export const VERIFICATIONS = ['counts', 'full'] as const;
export type Verification = (typeof VERIFICATIONS)[number];
