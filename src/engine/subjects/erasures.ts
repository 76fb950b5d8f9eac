/**
 * Erasures from the request to their end. The control database has the state of each, and the project's own database says
 * whether it was committed, so that whoever takes one up, in this process or a later one, knows what is left to do.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import type { AuditOrigin } from '../../contract/audit.js';
import { EngineError, isOutage, messageOf } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import type { Erasure, ErasureOutcome, NotCovered } from '../../contract/wire/subjects.js';
import type { DatabaseAccess } from '../../db/database-access.js';
import { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import { reasonOf as tellable } from '../../moves/failure-reason.js';
import { BEGIN, sql } from '../../pg/index.js';
import { runPeriodically } from '../../tasks.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { NOT_LOCKED, tryWithProjectLock } from '../../tenancy/control/project-lock.js';
import type { ErasureRow } from '../../tenancy/control/subject-rows.js';
import { serviceWork } from '../../tenancy/postgres-errors.js';
import type { Feeds } from '../../feed/feeds.js';
import { declaredKind, homeOf, resolveNow } from './declaration.js';
import { eraseSubject, SEE_EVERYTHING } from './erase-subject.js';
import { type Bounds, findSubject, normalizeAsked, requireNotJoined, type Values } from './find-subject.js';
import { ledgerOf, markErased, markOf } from './ledger.js';
import type { AskedSubject } from './look-up.js';
import { commitmentsOf } from './receipt.js';
import { certify, type CertifyServices } from './certify.js';
import { cleanUp } from './upkeep.js';

export interface ErasureServices extends CertifyServices {
  readonly feeds: Feeds;
  readonly database: DatabaseAccess;
}

/** More rows are erased by a job, and not while a request waits. */
const SMALL_ROWS = 1_000;

/** How long the transaction of a job may take. */
const JOB_MS = 3_600_000;

const RESUME_EVERY_MS = 15_000;

/** After a failure that nothing explains, the next attempt is after 15 s, the one after that 30 s later, and so on up to an hour. */
const MOST_MS = 3_600_000;

/** By then the request that began an erasure has ended. */
const ABANDONED_S = 40;

/** Looks for work again later, instead of giving up. */
const isTemporary = (error: unknown): boolean =>
  !(error instanceof EngineError) ||
  isOutage(error) ||
  ['overloaded', 'table_busy', 'outcome_unknown', 'request_in_flight'].includes(error.code);

interface Sealed {
  readonly values: readonly (readonly [string, readonly string[]])[];
  readonly bounds: Bounds;
}

export interface Started {
  readonly erasure: Erasure;
  readonly nonce: string;
  /** false: it goes on after the response. */
  readonly isErased: boolean;
}

interface EraseOptions {
  readonly deep: boolean;
  readonly by: AuditOrigin;
  readonly signal: AbortSignal;
}

export class Erasures {
  private stopResuming = () => {};
  private running: Promise<unknown> = Promise.resolve();
  private readonly stop = new AbortController();
  /** Those that this process has begun and may take up at once. */
  private readonly mine = new Set<string>();
  private hasResumed = false;
  /** Those that failed for no known reason: how often, and when the next attempt is, by `performance.now()`. */
  private readonly failing = new Map<string, { readonly times: number; readonly nextAt: number }>();

  constructor(private readonly services: ErasureServices) {}

  /**
   * What an erasure would do, by doing it and rolling back.
   * @param project in a dry run
   * @throws EngineError as {@link erase}
   */
  async rehearse(project: Project, asked: AskedSubject, signal: AbortSignal): Promise<ErasureOutcome> {
    const declared = await declaredKind(this.services, project.id, asked.kind);
    const { response } = await project.write({ signal, growth: 'none' }, async (db) => {
      const { subjects } = await resolveNow(db, homeOf(project), asked.kind, declared, false);
      const values = await normalizeAsked(db, subjects, asked.identifiers);
      const { result } = await eraseSubject(db, homeOf(project), subjects, values, asked.bounds, () =>
        this.requireNoPrepared(project),
      );
      return planCommit<ErasureOutcome>({ ...result, transaction: null });
    });
    return response;
  }

  /**
   * Begins an erasure, and carries out a small one.
   * @throws EngineError not_found, invalid_request, invalid_value, table_not_found, column_not_found, permission_denied,
   * constraint_violation, table_busy: nothing was erased
   */
  async erase(project: Project, asked: AskedSubject, { deep, by, signal }: EraseOptions): Promise<Started> {
    const { control, keys } = this.services;
    const { kind, identifiers, bounds } = asked;
    const declared = await declaredKind(this.services, project.id, kind);
    const reading = { connection: 'write', signal, preamble: [BEGIN, SEE_EVERYTHING] } as const;
    const { subjects, found } = await project.read(reading, async (db) => {
      const { subjects } = await resolveNow(db, homeOf(project), kind, declared, false);
      const found = await findSubject(db, subjects, await normalizeAsked(db, subjects, identifiers), bounds);
      requireNotJoined(found, bounds);
      return { subjects, found };
    });
    const nonce = randomBytes(32).toString('base64url');
    const id = randomUUID();
    const row = {
      ...{ id, projectId: project.id, project: project.name, server: project.row.placement.server, kind, deep },
      lineage: await control.subjects.lineageOf(project.id),
      commitments: commitmentsOf(nonce, subjects, found.values),
    };
    const sealed: Sealed = { values: Array.from(found.values, ([name, values]) => [name, [...values]]), bounds };
    await control.subjects.addErasure(row, keys.seal(sealed), by.actorName ?? by.actorId ?? by.actor);
    const rows = [...found.rows.values()].reduce((sum, count) => sum + count, 0);
    const isErased = !deep && rows <= SMALL_ROWS;
    try {
      if (isErased) await this.eraseNow(await this.rowOf(project.id, id), project, { signal });
    } catch (error) {
      if (isTemporary(error) && !(error instanceof EngineError && error.code === 'table_busy')) throw error;
      await control.subjects.setFailed(id, reasonOf(error));
      throw error;
    } finally {
      this.mine.add(id);
      this.resumeSoon();
    }
    return { erasure: shownErasure(await this.rowOf(project.id, id)), nonce, isErased };
  }

  /** @throws EngineError not_found */
  async get(project: Project, id: string): Promise<Erasure> {
    return shownErasure(await this.rowOf(project.id, id));
  }

  async list(project: Project): Promise<Erasure[]> {
    return (await this.services.control.subjects.erasures(project.id, 100)).map(shownErasure);
  }

  /** From now on, takes up what has not ended: of this process, and what another has left. */
  startResuming(): void {
    const resume = () => this.resume();
    this.stopResuming = runPeriodically(RESUME_EVERY_MS, 'erase_subjects', resume, this.services.log, {
      isFirstNow: true,
    });
  }

  async close(): Promise<void> {
    this.stopResuming();
    this.stop.abort(new EngineError('database_unavailable', 'The service is stopping'));
    // Its failure is noted.
    await this.running.catch(() => {});
  }

  private async rowOf(projectId: string, id: string): Promise<ErasureRow> {
    const row = UUID.test(id) ? await this.services.control.subjects.erasure(projectId, id) : null;
    if (row === null) throw new EngineError('not_found', 'There is no such erasure');
    return row;
  }

  private resumeSoon(): void {
    void this.resume().catch((error: unknown) => {
      this.services.log.warn({ error: messageOf(error) }, 'erasures will go on later');
    });
  }

  /**
   * Takes up what has not ended and is due, one at a time.
   * @throws the first failure that nothing explains; the other erasures have gone on
   */
  resume(): Promise<void> {
    // Whoever waits for the run before gets its failure.
    const next = this.running.catch(() => {}).then(() => this.resumeAll());
    this.running = next;
    return next;
  }

  private async resumeAll(): Promise<void> {
    const { control, servers } = this.services;
    // A data folder has one process: whoever had begun them is gone.
    const isFirst = !this.hasResumed && servers.defaultTenancy.files !== null;
    this.hasResumed = true;
    const rows = await control.subjects.unended([...this.mine], isFirst ? 0 : ABANDONED_S);
    const failures: unknown[] = [];
    for (const row of rows) {
      if (this.stop.signal.aborted) return;
      if ((this.failing.get(row.id)?.nextAt ?? 0) > performance.now()) continue;
      try {
        const hasEnded = await tryWithProjectLock(control.address, row.id, () => this.goOn(row));
        if (hasEnded === NOT_LOCKED) continue;
        this.failing.delete(row.id);
        if (hasEnded) this.mine.delete(row.id);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  /** @returns whether it has ended @throws a failure that nothing explains, naming the erasure */
  private async goOn(row: ErasureRow): Promise<boolean> {
    const { control } = this.services;
    const { signal } = this.stop;
    try {
      const of = await control.projects.find('id', row.projectId);
      if (of === null) {
        await control.subjects.setFailed(row.id, 'The project was deleted');
        await control.subjects.setDone(row.id, { steps: [], second_look: null });
        return true;
      }
      const project = this.projectOf(of);
      if (row.state === 'running') await this.eraseNow(row, project, { signal, timeoutMs: JOB_MS });
      await this.finish(await this.rowOf(row.projectId, row.id), project);
      return true;
    } catch (error) {
      const reason = reasonOf(error);
      if (!isTemporary(error)) {
        // Either it was not committed, and nothing is erased, or it was, and the space cannot be freed.
        await control.subjects.setFailed(row.id, reason);
        await control.subjects.setDone(row.id, {
          steps: [{ step: 'upkeep', ms: 0, problem: reason }],
          second_look: null,
        });
        return true;
      }
      if (error instanceof EngineError) {
        await control.subjects.noteError(row.id, reason);
        return false;
      }
      const { times } = this.failing.get(row.id) ?? { times: 0 };
      const waitMs = Math.min(MOST_MS, RESUME_EVERY_MS * 2 ** times);
      this.failing.set(row.id, { times: times + 1, nextAt: performance.now() + waitMs });
      await control.subjects.noteError(
        row.id,
        `${reason}: tried ${counted(times + 1, 'time')}; the log of the service has more`,
      );
      throw new Error(`The erasure ${row.id}: ${tellable(error) ?? ''}`, { cause: error });
    }
  }

  private projectOf(row: ProjectRow): Project {
    return new Project({ row, database: this.services.database, trace: null, role: null });
  }

  /** Until the receipt. Can be repeated: the project's database knows whether it was committed. */
  private async eraseNow(
    row: ErasureRow,
    project: Project,
    { signal, timeoutMs = 30_000 }: { readonly signal: AbortSignal; readonly timeoutMs?: number },
  ): Promise<void> {
    const { control, keys } = this.services;
    const { id, kind } = row;
    const home = homeOf(project);
    const readMark = () => project.read({ connection: 'write', signal }, (db) => markOf(db, id));
    let mark = await readMark();
    const uncovered: NotCovered[][] = [];
    // Once it is committed, neither the declaration nor the secret may stop it.
    if (mark === null) {
      const declared = await declaredKind(this.services, project.id, kind);
      const { values, bounds } = await this.sealedOf(id);
      const ledgerKey = await keys.ledgerKey();
      await project.write({ signal, growth: 'none', timeoutMs, isIdempotent: true }, async (db) => {
        const resolved = await resolveNow(db, home, kind, declared, false);
        uncovered[0] = resolved.notCovered;
        const { found, result } = await eraseSubject(db, home, resolved.subjects, values, bounds, () =>
          this.requireNoPrepared(project),
        );
        // Before the commit: afterwards nobody could find these identifiers.
        await control.subjects.setLedger(id, ledgerOf(ledgerKey, row, declared.declared, found.values));
        return planCommit(result, [markErased(id, result)]);
      });
      mark = await readMark();
    }
    if (mark === null) throw new EngineError('outcome_unknown', 'The erasure is not in the database');
    try {
      await certify(this.services, row, project, mark, uncovered[0] ?? null, signal);
    } catch (error) {
      if (isTemporary(error)) throw error;
      // Not as a refusal, which would mean that nothing was erased.
      throw new Error(`It is erased, but has no receipt yet: ${messageOf(error)}`, { cause: error });
    }
    // Idle sessions show their last statement.
    project.recheckRights();
  }

  /** Frees the space, and looks again. */
  private async finish(row: ErasureRow, project: Project): Promise<void> {
    if (row.state !== 'cleaning') return;
    const { control } = this.services;
    const { kind, deep, ledger } = row;
    // The ledger has the declaration by which it was erased.
    const declared = ledger?.declaration ?? (await declaredKind(this.services, project.id, kind)).declared;
    const { values } = await this.sealedOf(row.id);
    const options = { deep, signal: this.stop.signal };
    const upkeep = await cleanUp(this.services, project, { kind, declared, values }, options);
    await control.subjects.setDone(row.id, upkeep);
  }

  private async sealedOf(id: string): Promise<{ values: Values; bounds: Bounds }> {
    const sealed = await this.services.control.subjects.sealed(id);
    if (sealed === null) throw new EngineError('not_found', 'The erasure has ended');
    const { values, bounds } = this.services.keys.open(sealed) as Sealed;
    return { values: new Map(values.map(([name, texts]) => [name, new Set(texts)])), bounds };
  }

  /** The rows of one are invisible, and would be there once it is committed. @throws EngineError table_busy, naming it */
  private async requireNoPrepared({ row: { placement } }: Project): Promise<void> {
    const { pool } = this.services.servers.serverOf(placement);
    const rows = await serviceWork(() =>
      pool.query(sql`SELECT gid FROM pg_prepared_xacts WHERE database = ${placement.database} ORDER BY gid LIMIT 3`),
    );
    if (rows.length === 0) return;
    const names = rows.map(([gid]) => `"${gid}"`).join(', ');
    throw new EngineError('table_busy', `A prepared transaction may hold the person: ${names}. Nothing was erased`, {
      hint: 'End it with COMMIT PREPARED or ROLLBACK PREPARED.',
    });
  }
}

/** Without what Postgres or code of the project says, which may name the person. */
function reasonOf(error: unknown): string {
  if (!(error instanceof EngineError)) return 'internal';
  const { code, message, postgres } = error;
  if (postgres === undefined) return `${code}: ${message}`;
  const { sqlstate, constraint } = postgres;
  return `${code}: SQLSTATE ${sqlstate}${constraint === undefined ? '' : `, constraint ${constraint}`}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function shownErasure(row: ErasureRow): Erasure {
  const { id, kind, state, deep, createdAt, erasedAt, endedAt, error, result, receipt } = row;
  return {
    ...{ id, kind, state, deep, created_at: createdAt.toISOString(), error, receipt },
    ...{ erased_at: erasedAt?.toISOString() ?? null, ended_at: endedAt?.toISOString() ?? null },
    ...{ result: result?.erased ?? null, upkeep: result?.upkeep ?? null },
  };
}
