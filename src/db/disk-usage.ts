/** The measured size of a project's database. Reasons for the times: docs/decisions/0019-disk-quota.md. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProjectRow } from '../tenancy/control/control-rows.js';

/** Bytes of a project's database; null if they are unknown, or it is gone. */
export type MeasureSize = (project: ProjectRow) => Promise<number | null>;

/** While a project is within its quota, a measurement older than this is renewed in the background. */
const RENEW_MS = 2_000;
/** Requests wait for a new measurement if the last one is older than this: other instances may have written since. */
const TRUST_MS = 30_000;
/** While a project is over its quota: another instance, or Postgres's own vacuum, may have freed space. */
const RECHECK_MS = 500;

/** Maximum share of time spent on measuring, which takes longer the more tables there are. */
const MEASURING_SHARE = 0.2;

/** Maximum wait of a request for a measurement to begin. */
const MAX_WAIT_MS = 2_000;

/** How far a project may exceed its quota before running work is canceled: a tenth, within these bounds. */
const MARGIN_SHARE = 0.1;
const MIN_MARGIN = 64 * 1024 * 1024;
const MAX_MARGIN = 1024 * 1024 * 1024;

export class DiskUsage {
  /** Bytes at the last measurement. */
  bytes = 0;
  /** The smallest size since the project went over its quota; null: it is not over. */
  private least: number | null = null;
  /** On the clock of `performance.now()`. */
  private measuredAt = -Infinity;
  private nextMeasurementAt = 0;
  private measuring: Promise<void> | null = null;
  /** Something has been removed since the last measurement began. */
  private isOutdated = false;

  constructor(
    private readonly measure: MeasureSize,
    private row: ProjectRow,
    private quotaBytes: number,
  ) {}

  get quota(): number {
    return this.quotaBytes;
  }

  get isOverQuota(): boolean {
    return this.least !== null;
  }

  get isBeingMeasured(): boolean {
    return this.measuring !== null;
  }

  /** Whether the database has grown by at most the margin since it was smallest. */
  get isNearLeast(): boolean {
    return this.bytes <= (this.least ?? 0) + this.margin;
  }

  /** How far running work may grow the database, so that work which began within the quota can end, in bytes. */
  get limit(): number {
    return Math.max(this.quota, this.least ?? 0) + this.margin;
  }

  private get margin(): number {
    return Math.min(Math.max(this.quota * MARGIN_SHARE, MIN_MARGIN), MAX_MARGIN);
  }

  /** A changed quota applies as soon as the project's row is read again. */
  update(row: ProjectRow, quota: number): void {
    this.row = row;
    if (quota === this.quotaBytes) return;
    this.quotaBytes = quota;
    this.note(this.bytes);
  }

  /** Makes sure that the measurement is recent enough to decide by. @throws EngineError database_unavailable */
  async refresh(): Promise<void> {
    const age = performance.now() - this.measuredAt;
    if (this.isOverQuota ? this.isOutdated || age > RECHECK_MS : age > TRUST_MS) await this.measureAgain();
    else if (!this.isOverQuota && age > RENEW_MS) this.renew();
  }

  /** Work has ended that may have freed space, which the next write should find at once. */
  outdate(): void {
    this.isOutdated = true;
  }

  /** Measures in the background. If that fails, the next request that waits for a measurement reports it. */
  renew(): void {
    // Whoever needs the size measures again, and gets the error.
    this.startMeasuring().catch(() => {});
  }

  /** One measurement for all who ask at once. @throws EngineError database_unavailable */
  startMeasuring(): Promise<void> {
    this.measuring ??= this.takeMeasurement().finally(() => (this.measuring = null));
    return this.measuring;
  }

  /** A measurement that began before the removal does not count. */
  private async measureAgain(): Promise<void> {
    if (this.measuring !== null) {
      await this.measuring;
      if (!this.isOutdated) return;
    }
    await this.startMeasuring();
  }

  private async takeMeasurement(): Promise<void> {
    const early = this.nextMeasurementAt - performance.now();
    if (early > 0) await sleep(Math.min(early, MAX_WAIT_MS));
    this.isOutdated = false;
    const startedAt = performance.now();
    // If the size is unknown, the last one stays: the next use of a missing database reports that better, and a cluster
    // with an unreachable node has not become smaller.
    this.note((await this.measure(this.row)) ?? this.bytes);
    this.measuredAt = startedAt;
    const endedAt = performance.now();
    this.nextMeasurementAt = endedAt + (endedAt - startedAt) * (1 / MEASURING_SHARE - 1);
  }

  private note(bytes: number): void {
    this.bytes = bytes;
    this.least = bytes > this.quota ? Math.min(this.least ?? bytes, bytes) : null;
  }
}
