/** The state machine of a move: each transition is made from the states that allow it, and from no other one. */
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MOVE_STATES, type MoveState } from '../../src/contract/moves.js';
import type { MoveRow, MoveRows } from '../../src/moves/move-rows.js';
import { onServer, startTestService, type TestService } from '../support/service.js';

let service: TestService;
let rows: MoveRows;
let move: MoveRow;
let schemaVersion: number;

beforeAll(async () => {
  service = await startTestService();
  ({ rows } = service.engine.moves);
  const { name, id: projectId } = await service.project();
  const project = await service.engine.projects.get(name);
  ({ schemaVersion } = project);
  const target = await service.engine.servers.tenancyOf(project.placement).newPlacement();
  const id = randomUUID();
  expect(await rows.insert({ id, projectId, source: project.placement, target, mode: 'copy' })).toBeNull();
  move = await service.engine.moves.get(id);
});

afterAll(() => service.close());

/** Puts the move into a state, and its project where the move began. */
async function put(client: pg.Client, state: MoveState): Promise<void> {
  const { server, database } = move.source;
  await client.query('UPDATE cdp.moves SET state = $2, ended_at = NULL WHERE id = $1', [move.id, state]);
  const place = 'UPDATE cdp.projects SET server = $2, database_name = $3 WHERE id = $1';
  await client.query(place, [move.projectId, server, database]);
}

/** @returns whether it was made; null: it does not say */
type Transition = () => Promise<boolean | null>;

const end = (to: 'done' | 'undone'): Promise<null> => rows.end(move.id, to).then(() => null);

it.each<[MoveState, readonly MoveState[], Transition]>([
  ['streaming', ['preparing'], () => rows.advance(move.id, 'streaming')],
  ['fencing', ['preparing', 'streaming'], () => rows.fence(move.id)],
  ['copying', ['fencing'], () => rows.advance(move.id, 'copying')],
  ['verifying', ['copying'], () => rows.advance(move.id, 'verifying')],
  // Once more, it says that the project lives on the target.
  ['switched', ['verifying', 'switched'], () => rows.switch(move, schemaVersion, null)],
  ['done', ['switched'], () => end('done')],
  [
    'undoing',
    ['preparing', 'streaming', 'fencing', 'copying', 'verifying', 'undoing'],
    () => rows.beginUndo(move.id, 'for the test'),
  ],
  ['undone', ['undoing'], () => end('undone')],
])('a move becomes %s only from %j', (to, allowed, enter) =>
  onServer(
    service.server,
    async (client) => {
      for (const from of MOVE_STATES) {
        await put(client, from);
        const hasEntered = await enter();
        const { state, endedAt } = await service.engine.moves.get(move.id);
        expect({ from, hasEntered: hasEntered ?? endedAt !== null, state }).toEqual({
          from,
          hasEntered: allowed.includes(from),
          state: allowed.includes(from) ? to : from,
        });
      }
    },
    service.database,
  ),
);
