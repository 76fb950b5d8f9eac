/** Moves of projects between Postgres servers on the wire. */
import { MOVE_MODES, MOVE_STATES, VERIFICATIONS } from '../moves.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './fields.js';

const To = Type.String({ description: 'The Postgres server that the project moves to.', examples: ['eu-1'] });

const Mode = Type.Enum(MOVE_MODES, {
  description:
    '`copy`, the default: writes are refused while the rows are copied. `stream`: writes continue meanwhile, and are refused only for a moment at the end. A project that cannot be streamed is copied.',
});

export const MoveProjectBody = Type.Object(
  {
    to: To,
    mode: Type.Optional(Mode),
    verify: Type.Optional(
      Type.Enum(VERIFICATIONS, {
        description:
          'What is compared before the switch. `counts`, the default: the schema, the number of rows of each table, and sequences. `full`: also a hash of the rows of each table, in any order, and of large objects.',
      }),
    ),
    max_pause: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 86_400,
        description: 'Refuse writes for at most this many seconds; undo a move that takes longer. Default: no limit.',
      }),
    ),
  },
  STRICT,
);
export type MoveProjectBody = Static<typeof MoveProjectBody>;

export const MovePlanQuery = Type.Object({ to: To, mode: Type.Optional(Mode) });
export type MovePlanQuery = Static<typeof MovePlanQuery>;

export const MovePlanResponse = Type.Object({
  ...success,
  project: Type.String(),
  from: Type.String(),
  to: Type.String(),
  bytes: Type.Nullable(Type.Integer({ description: 'Size of the project on disk. null: unknown.' })),
  obstacles: Type.Array(Type.String(), { description: 'What prevents the move. Empty: it can move.' }),
  warnings: Type.Array(Type.String(), {
    description:
      "What prevents nothing, but may not work on the target: policies, views and functions that name a role of the project as a constant, such as `current_user = 'writer'`. The move changes no constant.",
  }),
  fallback: Type.Nullable(
    Type.String({
      description:
        'Why the project would be copied although the mode is `stream`, and for about how long writes would be refused. Otherwise null.',
    }),
  ),
});
export type MovePlanResponse = Static<typeof MovePlanResponse>;

export const Move = Type.Object({
  id: Type.String({ format: 'uuid' }),
  project: Type.String({ description: 'Its name.' }),
  from: Type.String(),
  to: Type.String(),
  state: Type.Enum(MOVE_STATES, {
    description:
      'Before `switched` the project lives on the source, afterward on the target. `done`: the source has nothing left of it. `undone`: the target has nothing left of it.',
  }),
  rows: Type.Integer({ description: 'Copied so far.' }),
  bytes: Type.Integer({ description: 'Copied so far.' }),
  mode: Type.Enum(MOVE_MODES, { description: 'The mode that was requested.' }),
  fallback: Type.Nullable(
    Type.String({
      description:
        'Why the project was copied although the mode is `stream`, and for about how long writes were refused. Otherwise null.',
    }),
  ),
  reason: Type.Nullable(
    Type.String({
      description: 'Why the move was undone; in the state `switched`, why the project cannot be dropped on the source.',
    }),
  ),
  pause_ms: Type.Nullable(
    Type.Integer({ description: 'How long writes were refused. null: they were not, or they still are.' }),
  ),
  started_at: Type.String({ format: 'date-time' }),
  ended_at: Type.Nullable(Type.String({ format: 'date-time' })),
});
export type Move = Static<typeof Move>;

export const MoveResponse = Type.Object({ ...success, move: Move });
export type MoveResponse = Static<typeof MoveResponse>;

export const PlannedMove = Type.Object({
  project: Type.String({ description: 'Its name.' }),
  from: Type.String(),
  to: Type.Nullable(Type.String({ description: 'null: no other server accepts it.' })),
  obstacles: Type.Optional(
    Type.Record(Type.String(), {
      description: 'If no server accepts it: why, by the name of each other server.',
    }),
  ),
});
export type PlannedMove = Static<typeof PlannedMove>;

export const RebalanceResponse = Type.Object({ ...success, moves: Type.Array(PlannedMove) });
export type RebalanceResponse = Static<typeof RebalanceResponse>;

export const MovesQuery = Type.Object({
  project: Type.Optional(Type.String({ description: 'Only moves of this project.', examples: ['shop'] })),
});
export type MovesQuery = Static<typeof MovesQuery>;

export const MovesResponse = Type.Object({ ...success, moves: Type.Array(Move) });
export type MovesResponse = Static<typeof MovesResponse>;
