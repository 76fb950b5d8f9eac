/** Damaged data that statements and backups find: a line in the log for each place, and the number of all findings. */
import type { Log } from '../log.js';
import { PostgresError } from '../pg/index.js';
import { damageOf, isCorruption } from '../tenancy/postgres-errors.js';

/** Each place is logged at most once in this time. */
const AGAIN_MS = 60_000;

/** Maximum number of places to remember. */
const MAX_FINDINGS = 1_000;

export class CorruptionLog {
  /** Findings since the start. */
  count = 0;
  private readonly logged = new Map<string, number>();
  private readonly loggedErrors = new WeakSet<Error>();

  constructor(private readonly log: Log) {}

  /**
   * Takes note of an error that is about damaged data, and ignores any other, or one that it knows.
   * @param projectName null: unknown, or the control database
   */
  noteError(projectName: string | null, error: unknown): void {
    if (!(error instanceof PostgresError) || !isCorruption(error) || this.loggedErrors.has(error)) return;
    this.loggedErrors.add(error);
    this.note(projectName, damageOf(error));
  }

  /** @param damage for the log: nothing that a caller has chosen */
  note(projectName: string | null, damage: object): void {
    this.count++;
    const key = JSON.stringify([projectName, damage]);
    const now = performance.now();
    if (now - (this.logged.get(key) ?? -Infinity) < AGAIN_MS) return;
    if (this.logged.size >= MAX_FINDINGS) this.logged.clear();
    this.logged.set(key, now);
    this.log.error({ ...(projectName === null ? {} : { project: projectName }), ...damage }, 'damaged data was found');
  }
}
