/**
 * Moves a project to another server. The project lives on the source until the switch, a single change in the control
 * database; from then on it lives on the target. `recover.ts` cleans up after a crash.
 */
import type { CopyProgress } from '../../backup/copy/copy-database.js';
import { EngineError } from '../../contract/errors.js';
import type { MoveMode, MoveState, Verification } from '../../contract/moves.js';
import { drain } from '../../tenancy/drain.js';
import { raiseFence } from '../../tenancy/fence.js';
import { serverName } from '../../contract/servers.js';
import type { NewMove } from '../../tenancy/control/move-rows.js';
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
  /** Default: copy. */
  readonly mode?: MoveMode;
  readonly verify: Verification;
  /** Milliseconds for which writes may be refused; null: no limit. */
  readonly maxPauseMs: number | null;
  /** If aborted, the move ends with the signal's reason. */
  readonly signal: AbortSignal;
}

/**
 * The caller holds the project's lock, and cleans up after a failure.
 * @throws EngineError; Error with the reason if the move cannot go on; the signal's reason
 */
export async function moveProject(parts: ProjectParts, move: NewMove, options: MoveOptions, by: Origin): Promise<void> {
  const { moves, servers, databases, audit } = parts;
  const { id, source, target } = move;
  const [from, to] = [servers.tenancyOf(source), servers.tenancyOf(target)];

  // Create an empty target, and bring the source's schema and roles up to date.
  await serviceWork(() => databases.upgrade(from, source));
  await serviceWork(() => databases.restoreRights(from, source));
  options.signal.throwIfAborted();
  await serviceWork(() => to.create(target));
  options.signal.throwIfAborted();

  const pause = pauseLimit(options);
  const noted = new ProgressNotes(parts, id, AbortSignal.any([options.signal, pause.signal]));
  const { signal } = noted;
  const copy = {
    source: { tenancy: from, placement: source },
    target: { tenancy: to, placement: target },
    verify: options.verify,
    signal,
    onProgress: (progress: CopyProgress) => noted.take(progress),
  };
  let hasFence = false;
  try {
    if (options.mode !== 'stream' || !(await stream())) await copyBehindFence();
  } finally {
    await noted.end();
  }
  await advance('copying', 'verifying');

  // Nobody may read the old data once others write new data.
  await fence('reader', 'verifying');
  signal.throwIfAborted();
  const entry = audit.entryOfChange(by, { operation: 'project.move', object: serverName(target) });
  if (!(await moves.switch(move, databases.schemaVersion, entry))) throw taken();

  /**
   * Ends writes: the control database tells every instance, and the source refuses the writes of instances that miss
   * it.
   */
  async function endWrites(longestMs = DRAIN_MS): Promise<void> {
    if (!(await moves.fence(id))) throw taken();
    pause.begin();
    await drain(from, source, { roles: ['writer'], longestMs, signal });
    await fence('writer', 'fencing');
    await advance('fencing', 'copying');
    hasFence = true;
  }

  /** Copies rows, idempotency keys and receipts in one snapshot, then compares source and target. */
  async function copyBehindFence(): Promise<void> {
    if (!hasFence) await endWrites();
    const { copyDatabase } = await import('../../backup/copy/copy-database.js');
    await bothRunning(() => copyDatabase(copy));
  }

  /**
   * The same, and streams later writes. @returns false: the project has to be copied, into a target that is empty again
   */
  async function stream(): Promise<boolean> {
    await advance('preparing', 'streaming');
    const { NotStreamable, streamDatabase } = await import('../../backup/stream/stream-database.js');
    try {
      await bothRunning(() => streamDatabase({ ...copy, fence: () => endWrites(STREAM_DRAIN_MS) }));
      return true;
    } catch (error) {
      if (!(error instanceof NotStreamable)) throw error;
      const bytes = await from.sizeOf({ placement: source, sizeBytes: null });
      if (!(await moves.fallBack(id, inWords(reasonOf(error) ?? '', bytes)))) throw taken();
    }
    await serviceWork(() => to.drop(target));
    await serviceWork(() => to.create(target));
    return false;
  }

  function bothRunning<T>(work: () => Promise<T>): Promise<T> {
    return withServer(from.serverOf(source), () => withServer(to.serverOf(target), work));
  }

  async function fence(role: 'writer' | 'reader', during: MoveState): Promise<void> {
    signal.throwIfAborted();
    if (!(await serviceWork(() => raiseFence(from, source, role, () => moves.isAt(id, during))))) throw taken();
  }

  async function advance(before: MoveState, after: MoveState): Promise<void> {
    signal.throwIfAborted();
    if (!(await moves.advance(id, before, after))) throw taken();
  }
}

/** This process has lost the project's lock for a while, and another instance undoes the move. */
const taken = (): EngineError =>
  new EngineError('database_unavailable', 'The move was taken over by another instance, which undoes it');

/** Ends the move if writes are refused for too long. */
function pauseLimit({ maxPauseMs }: MoveOptions): { readonly signal: AbortSignal; begin(): void } {
  const limit = new AbortController();
  const begin = () => {
    if (maxPauseMs === null) return;
    const message = `Writes would have been refused for more than ${maxPauseMs / 1_000} s`;
    setTimeout(() => limit.abort(new Error(message)), maxPauseMs).unref();
  };
  return { signal: limit.signal, begin };
}

const NOTE_EVERY_MS = 1_000;

/** Stores the progress every second, and finds out whether the move was canceled. */
class ProgressNotes {
  readonly signal: AbortSignal;
  private readonly canceled = new AbortController();
  private readonly tables = new Map<string, { rows: number; bytes: number }>();
  private readonly timer: NodeJS.Timeout;
  private writing: Promise<void> = Promise.resolve();

  constructor(
    private readonly parts: ProjectParts,
    private readonly id: string,
    signal: AbortSignal,
  ) {
    this.signal = AbortSignal.any([signal, this.canceled.signal]);
    this.timer = setInterval(() => void this.write(), NOTE_EVERY_MS);
  }

  take({ table, rows, bytes }: CopyProgress): void {
    this.tables.set(table, { rows, bytes });
  }

  async end(): Promise<void> {
    clearInterval(this.timer);
    await this.write();
    this.signal.throwIfAborted();
  }

  private write(): Promise<void> {
    const sum = (key: 'rows' | 'bytes') => [...this.tables.values()].reduce((total, table) => total + table[key], 0);
    this.writing = this.writing
      .then(() => this.parts.moves.note(this.id, { rows: sum('rows'), bytes: sum('bytes') }))
      .then((goesOn) => {
        if (!goesOn) this.canceled.abort(new Error('It was canceled'));
      })
      // The control database may be unavailable for a moment; if it stays so, the next step fails.
      .catch(() => {});
    return this.writing;
  }
}
