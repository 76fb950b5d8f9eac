/** Moves of an installation: starts them in the background, lists and cancels them, and settles them after a crash. */
import { randomUUID } from 'node:crypto';
import { BY_ITSELF, type AuditOrigin } from '../contract/audit.js';
import { EngineError } from '../contract/errors.js';
import { runPeriodically } from '../tasks.js';
import type { MoveMode } from '../contract/moves.js';
import { serverName } from '../contract/servers.js';
import { isUuid } from '../contract/patterns.js';
import type { PlannedMove } from '../contract/wire/moves.js';
import {
  inUseElsewhere,
  PROJECT_LOCK_WAIT_MS,
  tryWithProjectLock,
  withProjectLock,
} from '../tenancy/control/project-lock.js';
import { noServer, serverRefOf } from '../tenancy/control/server-rows.js';
import { unavailable } from '../tenancy/postgres-errors.js';
import { analyze } from './contents.js';
import { reasonOf } from './failure-reason.js';
import { type MoveOptions, moveProject, settle } from './move.js';
import type { MoveServices } from './move-services.js';
import { checkMove, type MovePlan, planMove, requireNoObstacles } from './move-plan.js';
import { factsForRebalance, planRebalance } from './rebalance.js';
import type { MoveRow, MoveRows } from './move-rows.js';

/** How often to look for moves whose process has ended. */
const RECOVER_EVERY_MS = 5_000;

/** Maximum number of concurrent moves in an instance: each keeps a processor busy. */
const AT_ONCE = 4;

/** The stored reason. */
const CANCELED = 'The move was canceled';

/** A move that is not stored yet. */
interface MoveRequest {
  readonly id: string;
  /** The name of the project. */
  readonly name: string;
  /** The name of the server. */
  readonly to: string;
  readonly mode: MoveMode;
}

export class Moves {
  /** Moves that run in this process. */
  private readonly running = new Map<string, { readonly abort: AbortController; readonly work: Promise<void> }>();
  /**
   * Moves that failed here and need cleanup: another process may have undone them, but not what this one has created
   * since.
   */
  private readonly unrecovered = new Map<string, MoveRow>();
  /** The reasons why moves cannot be settled now, by id. */
  private readonly reported = new Map<string, string>();
  private stopRecovering = () => {};
  /** All moves as they are stored. */
  readonly rows: MoveRows;

  constructor(private readonly services: MoveServices) {
    this.rows = services.moveRows;
  }

  /** Moves that run in this process. */
  get underWay(): number {
    return this.running.size;
  }

  /** @throws EngineError not_found, database_unavailable */
  async plan(name: string, to: string, mode: MoveMode): Promise<MovePlan> {
    return planMove(this.services, await this.services.projectNamed(name), to, mode);
  }

  /** Plans which projects to move. @throws EngineError database_unavailable */
  async planRebalance(): Promise<PlannedMove[]> {
    return planRebalance(await factsForRebalance(this.services));
  }

  /**
   * Starts a move, which runs in this process.
   * @throws EngineError not_found, invalid_request naming all obstacles, request_in_flight, overloaded,
   * database_unavailable; outcome_unknown: if it has begun, it will be undone
   */
  async start(
    name: string,
    to: string,
    { mode, ...options }: Omit<MoveOptions, 'signal'> & Pick<MoveRequest, 'mode'>,
    by: AuditOrigin,
  ): Promise<MoveRow> {
    if (this.running.size >= AT_ONCE)
      throw new EngineError('overloaded', `${AT_ONCE} moves are already running on this instance`);
    const id = randomUUID();
    const abort = new AbortController();
    return new Promise((onStored, reject) => {
      const work = this.run({ id, name, to, mode }, { ...options, signal: abort.signal }, by, onStored)
        // Once the move has begun, its row holds the failure, or the next recovery settles it.
        .catch(reject)
        .finally(() => this.running.delete(id));
      this.running.set(id, { abort, work });
    });
  }

  /** @param onStored is called once the move is stored */
  private async run(
    request: MoveRequest,
    options: MoveOptions,
    by: AuditOrigin,
    onStored: (move: MoveRow) => void,
  ): Promise<void> {
    const { name } = request;
    const { id: projectId } = await this.services.projectNamed(name);
    if ((await this.rows.listOpen(projectId)).length > 0) throw inUseElsewhere(name);
    const underLock = async (lost: AbortSignal) => {
      const move = await this.insert(request);
      onStored(move);
      const signal = AbortSignal.any([options.signal, lost]);
      return { target: move.target, hasMoved: await this.carryOut(move, { ...options, signal }, by) };
    };
    const { target, hasMoved } = await withProjectLock(
      this.services.control.address,
      { id: projectId, name },
      underLock,
    );
    // Requests run meanwhile. If this fails, autovacuum does it later.
    if (hasMoved) await analyze(this.services.servers.tenancyOf(target), target, options.signal).catch(() => {});
  }

  /** Checks again under the lock, and stores the move. */
  private async insert({ id, name, to, mode }: MoveRequest): Promise<MoveRow> {
    const { servers, projectNamed } = this.services;
    const check = await checkMove(this.services, await projectNamed(name), to);
    requireNoObstacles(check);
    const { row, to: server } = check;
    const target = await servers.tenancyOf(serverRefOf(server)).newPlacement();
    const move = { id, projectId: row.id, source: row.placement, target, mode };
    const obstacle = await this.rows.insert(move);
    if (obstacle === 'moving') throw inUseElsewhere(name);
    if (obstacle === 'server') throw noServer({ server: to });
    return this.get(id);
  }

  /** @returns whether it has moved */
  private async carryOut(move: MoveRow, options: MoveOptions, by: AuditOrigin): Promise<boolean> {
    const { services } = this;
    const { projectId, project: name } = move;
    let failure: unknown = await moveProject(services, move, options, by).then(
      (leftOut) => {
        if (leftOut.length > 0) {
          const fields = { move: move.id, project: name, left_out: leftOut };
          services.log.warn(fields, 'a moved project lacks settings of its roles that its new server refuses');
        }
        return null;
      },
      (error: unknown) => error,
    );
    // Whether it has switched; null: unknown until the move is settled.
    let hasMoved: boolean | null = failure === null;
    if (failure instanceof EngineError && failure.code === 'outcome_unknown') {
      hasMoved = null;
      // If it has not switched, nothing was done.
      failure = unavailable(failure.cause);
    }
    try {
      hasMoved = await settle(services, move, reasonOf(failure));
    } catch (error) {
      // The next recovery continues, even if another process has undone the move meanwhile.
      this.unrecovered.set(move.id, move);
      await this.noteFailure(move, error);
    }
    // The switch has written the entry of a success.
    if (hasMoved === false) {
      const outcome = failure instanceof EngineError ? failure.code : 'internal';
      services.audit.record(by, { operation: 'project.move', outcome, project: { id: projectId, name } });
    }
    this.services.onEnd(projectId);
    return hasMoved === true;
  }

  /** Recent moves, the newest first. @param projectName only moves of the project of this name */
  list(projectName?: string): Promise<MoveRow[]> {
    return this.rows.latest(projectName);
  }

  /** @throws EngineError not_found */
  async get(id: string): Promise<MoveRow> {
    const move = isUuid(id) ? await this.rows.get(id) : null;
    if (move === null) throw new EngineError('not_found', 'There is no such move');
    return move;
  }

  /**
   * Cancels a move, in whichever process it runs. The project stays where it is.
   * @throws EngineError not_found; invalid_request if it is too late
   */
  async cancel(id: string): Promise<MoveRow> {
    const move = await this.get(id);
    if (!(await this.rows.beginUndo(id, CANCELED))) {
      throw new EngineError(
        'invalid_request',
        `The project has already moved to ${serverName(move.target)}, or the move has ended`,
      );
    }
    this.running.get(id)?.abort.abort(new Error(CANCELED));
    return this.get(id);
  }

  /**
   * Undoes or finishes moves whose process has ended.
   * @param lost a server that will not come back: a recovery that is still trying to reach it is waited for
   */
  async recover(lost: string | null = null): Promise<void> {
    const waitMs = lost === null ? undefined : PROJECT_LOCK_WAIT_MS;
    const open = (await this.rows.listOpen()).map((move) => [move.id, move] as const);
    for (const move of new Map([...this.unrecovered, ...open]).values()) {
      const { id, projectId, project: name } = move;
      // A move that runs here is settled here, even if this process has lost the project's lock.
      if (this.running.has(id)) continue;
      const underLock = async (): Promise<void> => {
        const now = await this.rows.get(id);
        if (now?.endedAt !== null && !this.unrecovered.has(id)) return;
        await settle(this.services, move, lost === null ? undefined : `The server ${lost} was lost`, lost);
        this.unrecovered.delete(id);
        this.reported.delete(id);
        this.services.audit.record(BY_ITSELF, { operation: 'repair', outcome: 'ok', project: { id: projectId, name } });
        this.services.onEnd(projectId);
      };
      await tryWithProjectLock(this.services.control.address, projectId, underLock, waitMs)
        // A server that does not answer must not block the other moves; the next recovery tries it again.
        .catch((error: unknown) => this.noteFailure(move, error));
    }
  }

  /** Reports that a move cannot be cleaned up now. */
  private async noteFailure(move: MoveRow, error: unknown): Promise<void> {
    const reason = reasonOf(error) ?? '';
    const { id, project, state } = move;
    if (this.reported.get(id) !== reason) {
      this.services.log.warn({ move: id, project, state, reason }, 'cleanup after a move failed; it will be retried');
    }
    this.reported.set(id, reason);
    // If the control database does not answer, the next recovery stores it.
    await this.rows.noteFailure(id, reason).catch(() => {});
  }

  startRecovering(): void {
    this.stopRecovering = runPeriodically(RECOVER_EVERY_MS, 'recover_moves', () => this.recover(), this.services.log);
  }

  /** Undoes moves that have not switched yet. */
  async close(): Promise<void> {
    this.stopRecovering();
    for (const { abort } of this.running.values()) abort.abort(new Error('The service was stopped'));
    await Promise.all(Array.from(this.running.values(), ({ work }) => work));
  }
}
