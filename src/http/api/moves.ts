/** Moves of projects between Postgres servers over HTTP, for an admin token. */
import { counted } from '../../contract/message-text.js';
import { Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/moves.js';
import type { MoveRow } from '../../moves/move-rows.js';
import { serverName } from '../../contract/servers.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { ProjectInPath, projectInPath } from './call-inputs.js';
import { ADMIN, type Operation, succeeds } from './operation.js';
import type { Call } from '../route.js';

const MoveInPath = Type.Object({ move: Type.String({ format: 'uuid' }) });

const moveInPath = ({ request }: Call): string => (request.params as { move: string }).move;

const EXAMPLE: wire.Move = {
  id: '7a1c2f6e-9d1b-4d55-8a39-0f7d3f0c1b2a',
  project: 'shop',
  from: 'default',
  to: 'eu-1',
  state: 'copying',
  rows: 120_000,
  bytes: 9_437_184,
  mode: 'copy',
  fallback: null,
  reason: null,
  pause_ms: null,
  started_at: '2026-01-31T09:30:00.000Z',
  ended_at: null,
};

const PLAN_MOVE: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/projects/:project/move',
  operationId: 'planMove',
  summary: 'Check whether a project can move to another Postgres server',
  description: 'Changes nothing.',
  audit: { operation: 'project.plan_move', isChange: false },
  params: ProjectInPath,
  query: wire.MovePlanQuery,
  success: succeeds(200, wire.MovePlanResponse, 'the project can move', {
    project: 'shop',
    from: 'default',
    to: 'eu-1',
    bytes: 9_437_184,
    obstacles: [],
    warnings: [],
    fallback: null,
  }),
  errors: ['not_found'],
  async handle(call) {
    const { to: target, mode = 'copy' } = call.request.query as wire.MovePlanQuery;
    const plan = await call.engine.moves.plan(projectInPath(call), target, mode);
    const { row, to, bytes, obstacles, warnings, fallback } = plan;
    const message = obstacles.length === 0 ? 'the project can move' : 'the project cannot move';
    const servers = { from: serverName(row.placement), to: to.name };
    return {
      body: { success: true, message, project: row.name, ...servers, bytes, obstacles, warnings, fallback },
    };
  },
};

const MOVE_PROJECT: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/projects/:project/move',
  operationId: 'moveProject',
  summary: 'Move a project to another Postgres server',
  description:
    'The move continues after the response; follow it with `readMove`. Reads continue. Writes fail with 503 `database_unavailable` while the rows are copied; with the mode `stream`, only for a moment at the end. A move that fails before the switch is undone.',
  audit: { operation: 'project.move', isChange: true },
  writesEntry: true,
  params: ProjectInPath,
  body: wire.MoveProjectBody,
  example: { to: 'eu-1' },
  success: succeeds(202, wire.MoveResponse, 'move started', {
    move: { ...EXAMPLE, state: 'preparing', rows: 0, bytes: 0 },
  }),
  errors: ['not_found', 'request_in_flight', 'outcome_unknown'],
  async handle(call) {
    const { to, mode = 'copy', verify = 'counts', max_pause: pause } = call.request.body as wire.MoveProjectBody;
    const options = { mode, verify, maxPauseMs: pause === undefined ? null : pause * 1_000 };
    const move = await call.engine.moves.start(projectInPath(call), to, options, auditOriginOf(call.request));
    return { body: moveResponse('move started', move) };
  },
};

const LIST_MOVES: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/moves',
  operationId: 'listMoves',
  summary: 'List the last 100 moves of projects, newest first',
  audit: { operation: 'move.list', isChange: false, isPolled: true },
  query: wire.MovesQuery,
  success: succeeds(200, wire.MovesResponse, '1 move', { moves: [EXAMPLE] }),
  errors: [],
  async handle({ engine, request }) {
    const moves = await engine.moves.list((request.query as wire.MovesQuery).project);
    const message = counted(moves.length, 'move');
    return { body: { success: true, message, moves: moves.map(shownMove) } };
  },
};

const PLAN_REBALANCE: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/rebalance',
  operationId: 'planRebalance',
  summary: 'List the moves that would empty draining servers and balance the other servers by weight',
  description:
    'Changes nothing. A project moves only to a server that answers, has room, has all labels of its current server, the same extensions, and the same or a later major version of Postgres. For a project that no server accepts, `obstacles` says why.',
  audit: { operation: 'move.plan_rebalance', isChange: false },
  success: succeeds(200, wire.RebalanceResponse, '1 project should move', {
    moves: [{ project: 'shop', from: 'default', to: 'eu-1' }],
  }),
  errors: [],
  async handle({ engine }) {
    const moves = await engine.moves.planRebalance();
    const message = `${counted(moves.length, 'project')} should move`;
    return { body: { success: true, message, moves } };
  },
};

const READ_MOVE: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/moves/:move',
  operationId: 'readMove',
  summary: 'Show one move of a project',
  audit: { operation: 'move.read', isChange: false },
  params: MoveInPath,
  success: succeeds(200, wire.MoveResponse, 'move', { move: EXAMPLE }),
  errors: ['not_found'],
  async handle(call) {
    return { body: moveResponse('move', await call.engine.moves.get(moveInPath(call))) };
  },
};

const CANCEL_MOVE: Operation = {
  ...ADMIN,
  method: 'DELETE',
  url: '/api/cdp/admin/moves/:move',
  operationId: 'cancelMove',
  summary: 'Cancel a move: the project stays where it is',
  description: 'The move is undone after the response. A move that has switched can no longer be canceled.',
  audit: { operation: 'move.cancel', isChange: true },
  params: MoveInPath,
  success: succeeds(202, wire.MoveResponse, 'move canceled', { move: EXAMPLE }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    return { body: moveResponse('move canceled', await call.engine.moves.cancel(moveInPath(call))) };
  },
};

const moveResponse = (message: string, move: MoveRow): wire.MoveResponse => ({
  success: true,
  message,
  move: shownMove(move),
});

const shownMove = (move: MoveRow): wire.Move => ({
  id: move.id,
  project: move.project,
  from: move.from,
  to: move.to,
  state: move.state,
  rows: move.rows,
  bytes: move.bytes,
  mode: move.mode,
  fallback: move.fallback,
  reason: move.reason,
  pause_ms: move.pauseMs,
  started_at: move.startedAt.toISOString(),
  ended_at: move.endedAt?.toISOString() ?? null,
});

export const MOVES: readonly Operation[] = [
  PLAN_MOVE,
  MOVE_PROJECT,
  PLAN_REBALANCE,
  LIST_MOVES,
  READ_MOVE,
  CANCEL_MOVE,
];
