/**
 * One move, from its plan to its end, through the states of `move-rows.ts`. The project lives on the source until the
 * switch, a single change in the control database; from then on it lives on the target. Whatever happens, `settle`
 * comes last: it drops the source after the switch, and before the switch it undoes the move.
 */
import { dropDumpRole } from '../backup/logical/dump-role.js';
import type { AuditOrigin } from '../contract/audit.js';
import type { MoveState, Verification } from '../contract/moves.js';
import { serverName } from '../contract/servers.js';
import { serverRefOf, type ServerRows } from '../tenancy/control/server-rows.js';
import { drain } from '../tenancy/drain.js';
import type { Placement, ProjectRole } from '../tenancy/placement.js';
import { serviceWork } from '../tenancy/postgres-errors.js';
import type { ProjectDatabase } from '../tenancy/tenancy.js';
import { withServer } from '../tenancy/postgres-server.js';
import { copyDatabase, type CopyOptions, type CopyResult } from './copy.js';
import { reasonOf } from './failure-reason.js';
import { lowerFence, raiseFence } from './fence.js';
import type { MoveServices } from './move-services.js';
import { fallbackText } from './move-plan.js';
import { beingUndone, type MoveRow, type NewMove } from './move-rows.js';
import { ProgressNotes } from './progress-notes.js';
import { cleanUpStream, streamDatabase } from './stream.js';
import { NotStreamable } from './stream-obstacles.js';

/** A write that takes longer is canceled, and its client gets an error. */
const DRAIN_MS = 10_000;

/** The same for a move by stream. */
const STREAM_DRAIN_MS = 500;

export interface MoveOptions {
  readonly verify: Verification;
  /** Milliseconds for which writes may be refused; null: no limit. */
  readonly maxPauseMs: number | null;
  /** If aborted, the move ends with the signal's reason. */
  readonly signal: AbortSignal;
}

/**
 * The caller holds the project's lock, and calls {@link settle} afterward.
 * @returns messages about settings of the project's roles that the target refuses
 * @throws EngineError; Error with the reason if the move cannot continue; the signal's reason
 */
export async function moveProject(
  services: MoveServices,
  move: NewMove,
  options: MoveOptions,
  by: AuditOrigin,
): Promise<string[]> {
  return new ProjectMove(services, move, options, by).run();
}

class ProjectMove {
  private readonly source: ProjectDatabase;
  private readonly target: ProjectDatabase;
  private readonly notes: ProgressNotes;
  /** Aborted if writes are refused for too long. */
  private readonly pause = new AbortController();
  /** Aborted if the move must end, for whatever reason. */
  private readonly signal: AbortSignal;
  private hasEndedWrites = false;

  constructor(
    private readonly services: MoveServices,
    private readonly move: NewMove,
    private readonly options: MoveOptions,
    private readonly by: AuditOrigin,
  ) {
    const { source, target } = move;
    this.source = { tenancy: services.servers.tenancyOf(source), placement: source };
    this.target = { tenancy: services.servers.tenancyOf(target), placement: target };
    this.notes = new ProgressNotes(services.moveRows, move.id);
    this.signal = AbortSignal.any([options.signal, this.pause.signal, this.notes.undoSignal]);
  }

  async run(): Promise<string[]> {
    await this.prepare();
    this.notes.begin();
    let copied: CopyResult | null;
    try {
      copied = this.move.mode === 'stream' ? await this.stream() : null;
      copied ??= await this.copyBehindFence();
    } finally {
      await this.notes.end();
      this.signal.throwIfAborted();
    }
    await this.limitSchemas();
    this.signal.throwIfAborted();
    await this.endReads();
    await this.switch();
    return copied.leftOut;
  }

  /** `preparing`. Brings the source's schema and roles up to date, and creates an empty target. */
  private async prepare(): Promise<void> {
    const { databaseSetup } = this.services;
    const { tenancy, placement } = this.source;
    await serviceWork(() => databaseSetup.upgrade(tenancy, placement));
    await serviceWork(() => databaseSetup.restoreRights(tenancy, placement));
    this.signal.throwIfAborted();
    await this.createTarget();
    this.signal.throwIfAborted();
  }

  /** With all roles of the project, which its rights and policies name. */
  private async createTarget(): Promise<void> {
    const { source, target } = this;
    const { databaseSetup } = this.services;
    const roles = await serviceWork(() => databaseSetup.madeRoles(source.tenancy, source.placement));
    await serviceWork(() => target.tenancy.create(target.placement));
    await serviceWork(() => databaseSetup.createRoles(target.tenancy, target.placement, roles));
  }

  /**
   * `streaming`. Copies the project, then streams later writes, and ends writes only for the last of them.
   * @returns null: the project has to be copied, into a target that is empty again
   */
  private async stream(): Promise<CopyResult | null> {
    await this.advance('streaming');
    try {
      const endWrites = () => this.endWrites(STREAM_DRAIN_MS);
      return await this.onBothServers(() => streamDatabase({ ...this.copyOptions(), endWrites }));
    } catch (error) {
      if (!(error instanceof NotStreamable)) throw error;
      await this.fallBack(error);
      return null;
    }
  }

  private async fallBack(error: Error): Promise<void> {
    const { source, target } = this;
    const bytes = await source.tenancy.sizeOf({ placement: source.placement, sizeBytes: null });
    const why = fallbackText(reasonOf(error) ?? '', bytes);
    if (!(await this.services.moveRows.fallBack(this.move.id, why))) throw beingUndone();
    await serviceWork(() => target.tenancy.drop(target.placement));
    await this.createTarget();
  }

  /** `copying`. Copies rows, idempotency keys and receipts in one snapshot, then compares source and target. */
  private async copyBehindFence(): Promise<CopyResult> {
    if (!this.hasEndedWrites) await this.endWrites(DRAIN_MS);
    return this.onBothServers(() => copyDatabase(this.copyOptions()));
  }

  /**
   * `fencing`. The control database tells every instance, and the source refuses the writes of instances that miss it.
   * @param maxMs a write that takes longer is canceled
   */
  private async endWrites(maxMs: number): Promise<void> {
    if (!(await this.services.moveRows.fence(this.move.id))) throw beingUndone();
    this.limitPause();
    const { tenancy, placement } = this.source;
    await drain(tenancy, placement, { roles: ['writer'], maxMs, signal: this.signal });
    await this.lockOut('writer', 'fencing');
    await this.advance('copying');
    this.hasEndedWrites = true;
  }

  private limitPause(): void {
    const { maxPauseMs } = this.options;
    if (maxPauseMs === null) return;
    const tooLong = new Error(`Writes would have been refused for more than ${maxPauseMs / 1_000} s`);
    setTimeout(() => this.pause.abort(tooLong), maxPauseMs).unref();
  }

  /** `verifying`. Nobody may read the old data once others write new data. */
  private async endReads(): Promise<void> {
    await this.advance('verifying');
    await this.lockOut('reader', 'verifying');
  }

  /** `switched`. From now on the project lives on the target. */
  private async switch(): Promise<void> {
    this.signal.throwIfAborted();
    const { audit, databaseSetup, moveRows } = this.services;
    const entry = audit.entryOfChange(this.by, { operation: 'project.move', object: serverName(this.move.target) });
    if (!(await moveRows.switch(this.move, databaseSetup.schemaVersion, entry))) throw beingUndone();
  }

  private async lockOut(role: ProjectRole, during: MoveState): Promise<void> {
    this.signal.throwIfAborted();
    const { tenancy, placement } = this.source;
    const isStill = () => this.services.moveRows.isAt(this.move.id, during);
    if (!(await serviceWork(() => raiseFence(tenancy, placement, role, isStill)))) throw beingUndone();
  }

  private async advance(to: 'streaming' | 'copying' | 'verifying'): Promise<void> {
    this.signal.throwIfAborted();
    if (!(await this.services.moveRows.advance(this.move.id, to))) throw beingUndone();
  }

  private copyOptions(): CopyOptions {
    const { source, target, signal, notes } = this;
    const { verify } = this.options;
    return { source, target, verify, signal, onProgress: (progress) => notes.take(progress) };
  }

  private onBothServers<T>(work: () => Promise<T>): Promise<T> {
    const { source, target } = this;
    return withServer(source.tenancy.serverOf(source.placement), () =>
      withServer(target.tenancy.serverOf(target.placement), work),
    );
  }

  /** A new place lets the project create schemas if its server can limit that, as the copy of its own ones needs. */
  private async limitSchemas(): Promise<void> {
    const { tenancy, placement } = this.target;
    if (!placement.ownSchemas) return;
    // The setting may have changed since the move began.
    const now = await this.services.control.projects.find('id', this.move.projectId);
    if (now?.placement.ownSchemas !== false) return;
    await serviceWork(() => this.services.databaseSetup.applyOwnSchemas(tenancy, { ...placement, ownSchemas: false }));
  }
}

/** The reason if the move's process cannot give one. */
const INTERRUPTED = 'The process that carried it out has ended, or lost the control database';

/**
 * Settles a move that has succeeded or failed, was canceled, or has lost its process: finishes it if the project already
 * lives on the target, and undoes it otherwise. Any step may have been done before, and another process may be doing
 * the same.
 * @param lost a server that will not come back: its contents are ignored
 * @returns whether the project lives on the target
 * @throws EngineError database_unavailable, outcome_unknown: the next attempt continues
 */
export async function settle(
  services: MoveServices,
  move: MoveRow,
  reason = INTERRUPTED,
  lost: string | null = null,
): Promise<boolean> {
  const { control, moveRows, servers } = services;
  const { id, source, target } = move;
  const drop = async (placement: Placement): Promise<void> => {
    if (serverName(placement) !== lost) await serviceWork(() => servers.tenancyOf(placement).drop(placement));
  };
  // From here on nobody can switch. If the switch has already happened, but its response was lost, the row says so.
  if (await moveRows.beginUndo(id, reason)) {
    await undo(services, move, drop);
    return false;
  }
  // A failover must not bring the project back to a source that was dropped.
  if (await moveRows.confirmSwitch(id)) {
    await drop(source);
    await moveRows.end(id, 'done');
    return true;
  }
  const state = (await moveRows.get(id))?.state;
  // Another process has undone it, perhaps while this one was still creating the target.
  if (state !== 'done' && (await isThere(control.servers, target))) await drop(target);
  return state === 'done';
}

/** False if the server has been removed: another process took it for lost. */
async function isThere(servers: ServerRows, { server, added }: Placement): Promise<boolean> {
  if (added === null) return true;
  const row = await servers.get(server);
  return row !== null && serverRefOf(row).added?.addedAt === added.addedAt;
}

/**
 * Takes back whatever the states before the switch may have done. First the project accepts writes again, since the
 * target's server may not answer.
 */
async function undo(
  { moveRows, servers }: MoveServices,
  { id, source, target, mode }: MoveRow,
  drop: (place: Placement) => Promise<void>,
): Promise<void> {
  const from = servers.tenancyOf(source);
  await serviceWork(() => lowerFence(from, source, () => moveRows.isAt(id, 'undoing')));
  await moveRows.unfence(id);
  if (mode === 'stream') await serviceWork(() => cleanUpStream({ tenancy: from, placement: source }));
  await drop(target);
  await serviceWork(() => dropDumpRole(from, source));
  await moveRows.end(id, 'undone');
}
