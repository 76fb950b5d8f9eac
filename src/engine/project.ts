/**
 * One project as its operations see it: a name, a place, and the only way to its database. That way leads through
 * admission, a connection logged in as the project's role, and a deadline.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { ConnectionLost, isShutdown, PostgresError, toEngineError, unavailable } from '../postgres/errors.js';
import type { TableDescription } from '../postgres/catalog/catalog.js';
import type { Connections, Lease } from '../tenancy/connections/connections.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import type { Lane } from '../tenancy/connections/project-session.js';
import type { Server, Tenancy } from '../tenancy/tenancy.js';
import { INSUFFICIENT_PRIVILEGE } from '../postgres/sqlstate.js';
import type { Admission, WorkKind } from './admission/admission.js';
import type { Rounds } from './admission/rounds.js';
import { clientLeft, RunningRequest } from './admission/running-request.js';
import type { KnownShape, ShapeCache } from './insert/shape-cache.js';
import type { CopyInserts } from './insert/copy-inserts.js';
import type { KnownStatements, ProjectStatements } from './sql/known-statements.js';
import type { Splitter } from './sql/split.js';
import type { Pace } from './admission/pace.js';
import { Patience } from './admission/patience.js';
import type { Clock, Deadline, StopReason } from './admission/deadline.js';
import type { Excess, Growth, Quotas } from './quota.js';
import type { RequestTrace, Stage } from './trace.js';

/** What all projects of a service share. */
export interface ProjectAccess {
  readonly admission: Admission;
  readonly connections: Connections;
  readonly tenancy: Tenancy;
  /** All requests that are using a backend now. */
  readonly running: Rounds<RunningRequest>;
  /** How many were ended from outside, by reason. */
  readonly stops: Map<StopReason, number>;
  readonly shapes: ShapeCache;
  readonly statements: KnownStatements;
  readonly splitter: Splitter;
  readonly copies: CopyInserts;
  readonly pace: Pace;
  /** Longest wait of one request, in milliseconds. */
  readonly waitMs: number;
  readonly quotas: Quotas;
  /** Brings the project's database up to date with this program before its first use; undefined where it is. */
  upgraded(project: ProjectRow): Promise<void> | undefined;
  /** @throws EngineError unauthorized, cdp_inactive where the project was deleted or deactivated in the meantime */
  requireActive(project: ProjectRow): Promise<void>;
}

export class Project {
  /** How long this request may still wait, wherever that is. */
  readonly patience: Patience;

  constructor(
    private readonly row: ProjectRow,
    private readonly access: ProjectAccess,
    /** Of the request; null where it is not traced. */
    readonly trace: RequestTrace | null,
  ) {
    this.patience = new Patience(access.waitMs);
  }

  get id(): string {
    return this.row.id;
  }

  get name(): string {
    return this.row.name;
  }

  get copies(): CopyInserts {
    return this.access.copies;
  }

  get splitter(): Splitter {
    return this.access.splitter;
  }

  /**
   * For so many bytes of this project that keep the event loop from others.
   * @returns resolves when it may go on; undefined where it may at once
   */
  pace(bytes: number): Promise<void> | undefined {
    return this.access.pace.wait(this.row.id, bytes);
  }

  /** The shape that a table of this project had when it was last looked at; null and undefined as in {@link ShapeCache}. */
  knownShape(table: string): KnownShape | null | undefined {
    return this.access.shapes.get(this.row.id, table);
  }

  rememberShape(table: TableDescription): KnownShape | null {
    return this.access.shapes.remember(this.row.id, table);
  }

  forgetShape(known: KnownShape): void {
    this.access.shapes.forget(this.row.id, known);
  }

  /** What is remembered of the statements of this project. */
  get statements(): ProjectStatements {
    return this.access.statements.of(this.row.id);
  }

  /** To be called before whatever makes the project larger. @throws EngineError quota_exceeded, database_unavailable */
  requireRoom(): Promise<void> | undefined {
    return this.access.quotas.requireRoom(this.row);
  }

  /** Whether, and how, the project is over its disk quota; null at once where it has none. @throws EngineError database_unavailable */
  excess(): Promise<Excess | null> | null {
    return this.access.quotas.excess(this.row);
  }

  get schema(): string {
    return this.row.placement.schema;
  }

  /**
   * Runs `work` on a connection of a lane, while the project's server runs. It is run again, once, on a connection that had
   * died while it was idle and answered nothing.
   * @param growth what the work may do to the size of the project before it is ended
   * @param trace of the request that it is done for
   * @throws EngineError overloaded, database_unavailable, quota_exceeded, the deadline's own, and what `work` throws
   */
  async use<T>(
    lane: Lane,
    deadline: Deadline,
    work: Work<T>,
    growth: Growth = 'writes',
    trace: RequestTrace | null = this.trace,
  ): Promise<T> {
    try {
      return await this.attempt(lane, deadline, work, growth, trace);
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw await this.explained(error);
    }
    // Whatever ended that connection may have ended the other idle ones too.
    this.access.connections.closeProject(this.row.id);
    try {
      return await this.attempt(lane, deadline, work, growth, trace);
    } catch (error) {
      throw await this.explained(error);
    }
  }

  /** The project may have changed what its roles may do: connections are looked at, and the rights mended, anew. */
  distrust(lease: Lease): void {
    lease.closeAfterUse();
    this.access.connections.closeProject(this.row.id);
  }

  /** Where Postgres answers and yet gives no connection, or ended it, the project itself may have gone. */
  private async explained(error: unknown): Promise<unknown> {
    const answer = toEngineError(error);
    const refused = answer instanceof EngineError && answer.code === 'database_unavailable';
    if (refused && answer.cause instanceof PostgresError) await this.access.requireActive(this.row);
    return answer;
  }

  private async attempt<T>(
    lane: Lane,
    deadline: Deadline,
    work: Work<T>,
    growth: Growth,
    trace: RequestTrace | null,
  ): Promise<T> {
    const { connections, quotas, running, stops, tenancy } = this.access;
    const { id, placement } = this.row;
    const server = tenancy.serverOf(placement);
    const starting = server.acquire();
    if (starting !== undefined) await this.untilRunning(server, starting);
    let lease: Lease;
    let leave = () => {};
    let call: Stage | undefined;
    const done = () => {
      server.release();
      leave();
    };
    try {
      const place = this.enter(lane === 'typed' ? 'typed' : 'sql', deadline, trace);
      leave = place instanceof Promise ? await place : place;
      call = trace?.calls();
      const upgrade = this.access.upgraded(this.row);
      if (upgrade !== undefined) await upgrade;
      lease = connections.lendIdle(id, lane) ?? (await connections.lendNew(id, placement, lane));
    } catch (error) {
      call?.end(error);
      done();
      throw error;
    }
    const { session } = lease;
    const answersBefore = session.answers;
    const request = new RunningRequest(id, lease, deadline, server.watchdog, stops);
    const unwatch = lane === 'sql-read' ? null : quotas.watch(this.row, growth, request);
    running.add(request);
    try {
      if (deadline.signal.aborted) throw clientLeft();
      const result = await work(lease, request);
      call?.end();
      return result;
    } catch (cause) {
      const error = request.reasonOf(cause);
      call?.end(error);
      // The project may have given its own rights away: the next connection is looked at, and mended, when it opens.
      if (isDenied(error)) lease.closeAfterUse();
      const unanswered = session.answers === answersBefore;
      throw isEnded(error) && lease.reused && unanswered ? new StaleConnection(error) : error;
    } finally {
      running.delete(request);
      request.finish();
      unwatch?.();
      const { ending } = request;
      const cleaned = connections.giveBack(lease, ending === null ? done : () => void ending.then(done));
      if (cleaned !== null) await cleaned;
    }
  }

  /** A server that starts for longer, as after a crash, goes on starting; the request has waited long enough. */
  private async untilRunning(server: Server, starting: Promise<void>): Promise<void> {
    const waited = this.patience.wait();
    const late = sleep(this.patience.ms, 'late' as const, { ref: false });
    try {
      if ((await Promise.race([starting, late])) !== 'late') return;
    } finally {
      waited();
    }
    starting.then(
      () => server.release(),
      () => {},
    );
    throw unavailable(new Error('The Postgres server of the project is still starting'));
  }

  private enter(kind: WorkKind, { signal }: Deadline, trace: RequestTrace | null): (() => void) | Promise<() => void> {
    const { admission } = this.access;
    const leave = admission.enterNow(this.row.id, kind);
    if (leave !== null) return leave;
    const wait = trace?.waits();
    const entering = admission.enter(this.row.id, kind, signal, this.patience);
    if (wait !== undefined)
      entering.then(
        () => wait.end(),
        (error: unknown) => wait.end(error),
      );
    return entering;
  }
}

/** "permission denied", as Postgres said it or as an answer already. */
function isDenied(error: unknown): boolean {
  const translated = toEngineError(error);
  return translated instanceof EngineError && translated.postgres?.sqlstate === INSUFFICIENT_PRIVILEGE;
}

/** The connection has broken, or Postgres said that it ends it. */
const isEnded = (error: unknown): error is ConnectionLost | PostgresError =>
  error instanceof ConnectionLost || isShutdown(error);

type Work<T> = (lease: Lease, clock: Clock) => Promise<T>;

/** The connection had died while it was idle; what was sent on it was the beginning of a transaction at most. */
class StaleConnection extends ConnectionLost {
  constructor(cause: ConnectionLost | PostgresError) {
    super(cause.message, { cause });
  }
}
