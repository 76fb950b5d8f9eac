/** A dry run on the wire: a write that is executed and rolled back. */
import { type Static, Type } from '../schema.js';

export const Impact = Type.Object({
  rows: Type.Array(
    Type.Object({ table: Type.String(), inserted: Type.Integer(), updated: Type.Integer(), deleted: Type.Integer() }),
    { description: 'Rows written, by table.' },
  ),
  locks: Type.Array(Type.Object({ table: Type.String(), modes: Type.Array(Type.String()) }), {
    description: 'Locks held at the end, as pg_locks names them.',
  }),
  rewritten: Type.Array(Type.String(), { description: 'Tables that were rewritten into new files.' }),
  dropped: Type.Optional(
    Type.Array(Type.String(), { description: 'Tables and views that would be dropped. Left out if there are none.' }),
  ),
  sequences: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Sequences that were used, which Postgres does not set back. Left out if there are none.',
    }),
  ),
  mentions: Type.Optional(
    Type.Array(
      Type.Object({
        function: Type.String({ examples: ['greet(text)'] }),
        triggers: Type.Array(Type.String(), { description: 'Triggers of the table that call it.' }),
      }),
      {
        description:
          'Of a new name: functions whose text has the old name as a word, the first 50. Unlike views, they do not follow ' +
          'the renaming. Left out if there are none.',
      },
    ),
  ),
  duration_ms: Type.Number(),
});
export type Impact = Static<typeof Impact>;

/** Additional fields of a response to a dry run. */
export const dryRunFields = {
  dry_run: Type.Optional(Type.Literal(true, { description: 'Everything was rolled back.' })),
  impact: Type.Optional(Impact),
};
