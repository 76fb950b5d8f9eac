/**
 * Moves a project to another server. The project lives on the source until the switch, a single change in the control
 * database; from then on it lives on the target. `recover.ts` cleans up after a crash.
 */
import type { CopyOptions, CopyProgress, CopyResult, ProjectDatabase } from '../../backup/copy/copy-database.js';
import { EngineError } from '../../contract/errors.js';
import type { MoveState, Verification } from '../../contract/moves.js';
import { drain } from '../../tenancy/drain.js';
import { raiseFence } from '../../tenancy/fence.js';
import { serverName } from '../../contract/servers.js';
import type { MoveRows, NewMove } from '../../tenancy/control/move-rows.js';
import { serviceWork } from '../../tenancy/service-work.js';
import { withServer } from '../../tenancy/tenancy.js';
import type { Origin } from '../audit/audit.js';
import type { ProjectParts } from '../projects/project-parts.js';
import { inWords } from './plan-move.js';
import { reasonOf } from './reason.js';

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
 * The caller holds the project's lock, and cleans up after a failure.
 * @returns messages about rights that the target lacks, because it does not have their roles
 * @throws EngineError; Error with the reason if the move cannot continue; the signal's reason
 */
export async function moveProject(
  parts: ProjectParts,
  move: NewMove,
  options: MoveOptions,
  by: Origin,
): Promise<string[]> {
  return new ProjectMove(parts, move, options, by).run();
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
    private readonly parts: ProjectParts,
    private readonly move: NewMove,
    private readonly options: MoveOptions,
    private readonly by: Origin,
  ) {
    const { source, target } = move;
    this.source = { tenancy: parts.servers.tenancyOf(source), placement: source };
    this.target = { tenancy: parts.servers.tenancyOf(target), placement: target };
    this.notes = new ProgressNotes(parts.control.moves, move.id);
    this.signal = AbortSignal.any([options.signal, this.pause.signal, this.notes.canceled]);
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
    await this.advance('copying', 'verifying');
    // Nobody may read the old data once others write new data.
    await this.fence('reader', 'verifying');
    await this.switch();
    return copied.leftOut;
  }

  /** Brings the source's schema and roles up to date, and creates an empty target. */
  private async prepare(): Promise<void> {
    const { databases } = this.parts;
    const { tenancy, placement } = this.source;
    await serviceWork(() => databases.upgrade(tenancy, placement));
    await serviceWork(() => databases.restoreRights(tenancy, placement));
    this.signal.throwIfAborted();
    await this.createTarget();
    this.signal.throwIfAborted();
  }

  private createTarget(): Promise<void> {
    return serviceWork(() => this.target.tenancy.create(this.target.placement));
  }

  /**
   * Copies the project, then streams later writes, and ends writes only for the last of them.
   * @returns null: the project has to be copied, into a target that is empty again
   */
  private async stream(): Promise<CopyResult | null> {
    await this.advance('preparing', 'streaming');
    const { NotStreamable, streamDatabase } = await import('../../backup/stream/stream-database.js');
    try {
      const fence = () => this.endWrites(STREAM_DRAIN_MS);
      return await this.onBothServers(() => streamDatabase({ ...this.copyOptions(), fence }));
    } catch (error) {
      if (!(error instanceof NotStreamable)) throw error;
      await this.fallBack(error);
      return null;
    }
  }

  private async fallBack(error: Error): Promise<void> {
    const { source, target } = this;
    const bytes = await source.tenancy.sizeOf({ placement: source.placement, sizeBytes: null });
    const why = inWords(reasonOf(error) ?? '', bytes);
    if (!(await this.parts.control.moves.fallBack(this.move.id, why))) throw taken();
    await serviceWork(() => target.tenancy.drop(target.placement));
    await this.createTarget();
  }

  /** Copies rows, idempotency keys and receipts in one snapshot, then compares source and target. */
  private async copyBehindFence(): Promise<CopyResult> {
    if (!this.hasEndedWrites) await this.endWrites(DRAIN_MS);
    const { copyDatabase } = await import('../../backup/copy/copy-database.js');
    return this.onBothServers(() => copyDatabase(this.copyOptions()));
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

  /**
   * The control database tells every instance, and the source refuses the writes of instances that miss it.
   * @param maxMs a write that takes longer is canceled
   */
  private async endWrites(maxMs: number): Promise<void> {
    if (!(await this.parts.control.moves.fence(this.move.id))) throw taken();
    this.limitPause();
    const { tenancy, placement } = this.source;
    await drain(tenancy, placement, { roles: ['writer'], maxMs, signal: this.signal });
    await this.fence('writer', 'fencing');
    await this.advance('fencing', 'copying');
    this.hasEndedWrites = true;
  }

  private limitPause(): void {
    const { maxPauseMs } = this.options;
    if (maxPauseMs === null) return;
    const tooLong = new Error(`Writes would have been refused for more than ${maxPauseMs / 1_000} s`);
    setTimeout(() => this.pause.abort(tooLong), maxPauseMs).unref();
  }

  private async fence(role: 'writer' | 'reader', during: MoveState): Promise<void> {
    this.signal.throwIfAborted();
    const { tenancy, placement } = this.source;
    const isStill = () => this.parts.control.moves.isAt(this.move.id, during);
    if (!(await serviceWork(() => raiseFence(tenancy, placement, role, isStill)))) throw taken();
  }

  private async advance(before: MoveState, after: MoveState): Promise<void> {
    this.signal.throwIfAborted();
    if (!(await this.parts.control.moves.advance(this.move.id, before, after))) throw taken();
  }

  /** From now on the project lives on the target. */
  private async switch(): Promise<void> {
    this.signal.throwIfAborted();
    const { audit, control, databases } = this.parts;
    const entry = audit.entryOfChange(this.by, { operation: 'project.move', object: serverName(this.move.target) });
    if (!(await control.moves.switch(this.move, databases.schemaVersion, entry))) throw taken();
  }
}

/** This process had lost the project's lock for a while, so another instance undoes the move. */
const taken = (): EngineError =>
  new EngineError('database_unavailable', 'The move was taken over by another instance, which undoes it');

const NOTE_EVERY_MS = 1_000;

/** Stores the progress every second, and finds out whether the move was canceled. */
class ProgressNotes {
  private readonly cancellation = new AbortController();
  /** Aborted once it is found to be canceled. */
  readonly canceled = this.cancellation.signal;
  private readonly tables = new Map<string, { rows: number; bytes: number }>();
  private timer: NodeJS.Timeout | undefined;
  private writing: Promise<void> = Promise.resolve();

  constructor(
    private readonly moves: MoveRows,
    private readonly id: string,
  ) {}

  begin(): void {
    this.timer = setInterval(() => void this.write(), NOTE_EVERY_MS);
  }

  take({ table, rows, bytes }: CopyProgress): void {
    this.tables.set(table, { rows, bytes });
  }

  async end(): Promise<void> {
    clearInterval(this.timer);
    await this.write();
  }

  private write(): Promise<void> {
    const sum = (key: 'rows' | 'bytes') => [...this.tables.values()].reduce((total, table) => total + table[key], 0);
    this.writing = this.writing
      .then(() => this.moves.note(this.id, { rows: sum('rows'), bytes: sum('bytes') }))
      .then((goesOn) => {
        if (!goesOn) this.cancellation.abort(new Error('The move was canceled'));
      })
      // The control database may be unavailable for a moment; if it stays so, the next step fails.
      .catch(() => {});
    return this.writing;
  }
}
