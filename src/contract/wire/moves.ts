/** Moves of projects between Postgres servers on the wire. */
import { MOVE_MODES, MOVE_STATES, VERIFICATIONS } from '../moves.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './success.js';

const To = Type.String({ description: 'The Postgres server that the project moves to.', examples: ['eu-1'] });

const Mode = Type.Enum(MOVE_MODES, {
  description:
    '`copy`, the default: writes are refused while the rows are copied. `stream`: writes go on meanwhile, and are refused for a moment at the end; what cannot be streamed is copied.',
});

export const MoveProjectBody = Type.Object(
  {
    to: To,
    mode: Type.Optional(Mode),
    verify: Type.Optional(
      Type.Enum(VERIFICATIONS, {
        description:
          'What is compared before the switch. `counts`, the default: the schema, the number of rows of each table, and sequences. `full`: a hash of the rows of each table, which does not depend on their order, and of large objects, too.',
      }),
    ),
    max_pause: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 86_400,
        description:
          'Seconds for which writes may be refused. A move that takes longer is undone. Default: as many as it takes.',
      }),
    ),
  },
  STRICT,
);
export type MoveProjectBody = Static<typeof MoveProjectBody>;

export const MovePlanQuery = Type.Object({ to: To, mode: Type.Optional(Mode) });
export type MovePlanQuery = Static<typeof MovePlanQuery>;

export const MovePlanAnswer = Type.Object({
  ...success,
  project: Type.String(),
  from: Type.String(),
  to: Type.String(),
  bytes: Type.Nullable(Type.Integer({ description: 'Of the project on disk. null: unknown.' })),
  obstacles: Type.Array(Type.String(), { description: 'What prevents the move. Empty: it can move.' }),
  fallback: Type.Nullable(
    Type.String({
      description: 'Why it would be copied though the mode is `stream`, and for about how long. null: it would not.',
    }),
  ),
});
export type MovePlanAnswer = Static<typeof MovePlanAnswer>;

export const Move = Type.Object({
  id: Type.String({ format: 'uuid' }),
  project: Type.String({ description: 'Its name.' }),
  from: Type.String(),
  to: Type.String(),
  state: Type.Enum(MOVE_STATES, {
    description:
      'Until `switched` the project lives where it was, and from then on where it moves to. `done`: nothing is left of it where it was. `undone`: nothing is left where it was to move to.',
  }),
  rows: Type.Integer({ description: 'Copied so far.' }),
  bytes: Type.Integer({ description: 'Copied so far.' }),
  mode: Type.Enum(MOVE_MODES, { description: 'As asked for.' }),
  fallback: Type.Nullable(
    Type.String({
      description: 'Why it was copied though the mode is `stream`, and for about how long. null: it was not.',
    }),
  ),
  reason: Type.Nullable(
    Type.String({
      description: 'Why it was undone. Of one that is `switched`: why the project cannot be dropped where it was.',
    }),
  ),
  pause_ms: Type.Nullable(
    Type.Integer({ description: 'For how long writes were refused. null: they were not, or they still are.' }),
  ),
  started_at: Type.String({ format: 'date-time' }),
  ended_at: Type.Nullable(Type.String({ format: 'date-time' })),
});
export type Move = Static<typeof Move>;

export const MoveAnswer = Type.Object({ ...success, move: Move });
export type MoveAnswer = Static<typeof MoveAnswer>;

export const PlannedMove = Type.Object({
  project: Type.String({ description: 'Its name.' }),
  from: Type.String(),
  to: Type.Nullable(Type.String({ description: 'null: no other server takes it.' })),
});
export type PlannedMove = Static<typeof PlannedMove>;

export const RebalanceAnswer = Type.Object({ ...success, moves: Type.Array(PlannedMove) });
export type RebalanceAnswer = Static<typeof RebalanceAnswer>;

export const MovesQuery = Type.Object({
  project: Type.Optional(Type.String({ description: 'Moves of this project alone.', examples: ['shop'] })),
});
export type MovesQuery = Static<typeof MovesQuery>;

export const MovesAnswer = Type.Object({ ...success, moves: Type.Array(Move) });
export type MovesAnswer = Static<typeof MovesAnswer>;
