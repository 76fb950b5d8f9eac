/**
 * The disk quota of projects. Postgres has no quotas, so the service measures a project's database while it is written
 * to, rejects writes if it is over its quota, and cancels statements that keep growing it. Reasons:
 * docs/decisions/0019-disk-quota.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { quotaText, roundedSize } from '../../contract/disk-size.js';
import { EngineError } from '../../contract/errors.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Clock } from './deadline.js';

/** Bytes of a project's database; null if they are unknown, or it is gone. */
type MeasureSize = (project: ProjectRow) => Promise<number | null>;

/** While a project is within its quota, a measurement older than this is renewed in the background. */
const RENEW_MS = 2_000;
/** Requests wait for a new measurement if the last one is older than this: other instances may have written since. */
const TRUST_MS = 30_000;
/** While a project is over its quota: another instance, or Postgres's own vacuum, may have freed space. */
const RECHECK_MS = 500;

/** Work that took longer may have written a lot: the size is measured again after it. */
const LARGE_WORK_MS = 100;

/** The largest share of time spent on measuring, which takes longer the more tables there are. */
const MEASURING_SHARE = 0.2;

/** The longest wait of a request for a measurement to begin. */
const MAX_WAIT_MS = 2_000;

/** While longer work runs, the size is measured at this interval. */
const MEASURE_EVERY_MS = 1_000;

/**
 * How far running work may exceed the quota, so that work which began within it can end: a tenth, within these bounds.
 */
const MARGIN_SHARE = 0.1;
const MIN_MARGIN = 64 * 1024 * 1024;
const MAX_MARGIN = 1024 * 1024 * 1024;

/**
 * The effect of work on the size of its project. `none`: it only reads or drops. `rewrites`: it writes new files before
 * the old ones are removed (VACUUM FULL, CLUSTER, REINDEX).
 */
export type QuotaImpact = 'none' | 'writes' | 'rewrites';

/** A project is over its quota. */
export interface OverQuota {
  readonly error: EngineError;
  /** False if it has grown further because code ran with deletes (triggers, functions): then only drops are allowed. */
  readonly mayRunCode: boolean;
}

type Stoppable = Pick<Clock, 'stop'>;

interface Work {
  readonly since: number;
  /** Bytes of the whole database. */
  readonly limit: number;
  readonly request: Stoppable;
}

/** The state of one project. */
interface Usage {
  project: ProjectRow;
  quota: number;
  bytes: number;
  /** On the clock of `performance.now()`. */
  measuredAt: number;
  /** When the next measurement may begin. */
  nextMeasurementAt: number;
  measuring: Promise<void> | null;
  /** Something has been removed since the last measurement began. */
  outdated: boolean;
  /** The smallest size since the project went over its quota; null: it is not over. */
  least: number | null;
  readonly works: Set<Work>;
}

export class Quotas {
  private readonly usages = new Map<string, Usage>();
  private readonly atWork = new Set<Usage>();
  private timer: NodeJS.Timeout | undefined;

  /** @param defaultBytes the quota of projects without their own; null: none */
  constructor(
    private readonly measure: MeasureSize,
    private readonly defaultBytes: number | null,
  ) {}

  /** Projects that were over their quota when this instance last measured them. */
  get projectsOver(): number {
    return [...this.usages.values()].filter(({ least }) => least !== null).length;
  }

  /**
   * @returns undefined if there is nothing to wait for
   * @throws EngineError quota_exceeded; database_unavailable if the size has to be measured and cannot be
   */
  requireRoom(project: ProjectRow): Promise<void> | undefined {
    return this.overQuota(project)?.then((over) => {
      if (over !== null) throw over.error;
    });
  }

  /** @returns null, at once, for a project without a quota. @throws EngineError database_unavailable */
  overQuota(project: ProjectRow): Promise<OverQuota | null> | null {
    const usage = this.usageOf(project);
    return usage === null ? null : this.check(usage);
  }

  private async check(usage: Usage): Promise<OverQuota | null> {
    const age = performance.now() - usage.measuredAt;
    if (usage.least === null ? age > TRUST_MS : usage.outdated || age > RECHECK_MS) await this.measureAgain(usage);
    else if (age > RENEW_MS) this.renew(usage);
    if (usage.least === null) return null;
    return { error: exceeded(usage), mayRunCode: usage.bytes <= usage.least + margin(usage.quota) };
  }

  /**
   * Watches work that may write.
   * @param request may be stopped at any time, if it grows the project too far
   * @returns a function that ends the watch; null if there is nothing to watch
   */
  watch(project: ProjectRow, impact: QuotaImpact, request: Stoppable): (() => void) | null {
    const usage = this.usageOf(project);
    if (usage === null) return null;
    const { works } = usage;
    const work = { since: performance.now(), limit: limitOf(usage, impact), request };
    works.add(work);
    this.atWork.add(usage);
    this.timer ??= setInterval(() => this.checkWork(), MEASURE_EVERY_MS).unref();
    return () => {
      works.delete(work);
      if (works.size === 0) this.atWork.delete(usage);
      // The work may have freed space, which the next write should find at once.
      if (usage.least !== null) usage.outdated = true;
      else if (performance.now() - work.since > LARGE_WORK_MS) this.renew(usage);
    };
  }

  /** Call this if the project is gone. */
  forget(project: string): void {
    this.usages.delete(project);
  }

  close(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** null if the project has no quota. A changed quota applies as soon as the project's row is read again. */
  private usageOf(project: ProjectRow): Usage | null {
    const { id, quotaBytes } = project;
    const quota = quotaBytes === null ? this.defaultBytes : quotaBytes === 0 ? null : quotaBytes;
    const known = this.usages.get(id);
    if (quota === null) {
      this.usages.delete(id);
      return null;
    }
    if (known === undefined) {
      const usage: Usage = {
        project,
        quota,
        bytes: 0,
        measuredAt: -Infinity,
        nextMeasurementAt: 0,
        measuring: null,
        outdated: false,
        least: null,
        works: new Set(),
      };
      this.usages.set(id, usage);
      return usage;
    }
    known.project = project;
    if (known.quota !== quota) {
      known.quota = quota;
      note(known, known.bytes);
    }
    return known;
  }

  /** A measurement that began before the removal does not count. */
  private async measureAgain(usage: Usage): Promise<void> {
    if (usage.measuring !== null) {
      await usage.measuring;
      if (!usage.outdated) return;
    }
    await this.startMeasuring(usage);
  }

  /** Measures in the background. If that fails, the next request that waits for a measurement reports it. */
  private renew(usage: Usage): void {
    this.startMeasuring(usage).catch(() => {});
  }

  private startMeasuring(usage: Usage): Promise<void> {
    usage.measuring ??= this.takeMeasurement(usage).finally(() => (usage.measuring = null));
    return usage.measuring;
  }

  private async takeMeasurement(usage: Usage): Promise<void> {
    const early = usage.nextMeasurementAt - performance.now();
    if (early > 0) await sleep(Math.min(early, MAX_WAIT_MS));
    usage.outdated = false;
    const startedAt = performance.now();
    // If the size is unknown, the last one stays: the next use of a missing database reports that better, and a cluster
    // with an unreachable node has not become smaller.
    note(usage, (await this.measure(usage.project)) ?? usage.bytes);
    usage.measuredAt = startedAt;
    const endedAt = performance.now();
    usage.nextMeasurementAt = endedAt + (endedAt - startedAt) * (1 / MEASURING_SHARE - 1);
  }

  private checkWork(): void {
    for (const usage of this.atWork) {
      const isLong = ({ since }: Work) => performance.now() - since >= MEASURE_EVERY_MS;
      if (usage.measuring !== null || ![...usage.works].some(isLong)) continue;
      this.startMeasuring(usage).then(
        () => {
          for (const work of usage.works)
            if (isLong(work) && usage.bytes > work.limit) work.request.stop(ended(usage), 'quota');
        },
        // Without a measurement nothing is canceled; the next one comes in a second.
        () => {},
      );
    }
  }
}

/** Stores a measurement. */
function note(usage: Usage, bytes: number): void {
  usage.bytes = bytes;
  usage.least = bytes > usage.quota ? Math.min(usage.least ?? bytes, bytes) : null;
}

/** The size of the whole database beyond which work is canceled, in bytes. */
function limitOf({ quota, least, bytes }: Usage, impact: QuotaImpact): number {
  if (impact === 'none') return Infinity;
  return Math.max(quota, least ?? 0) + margin(quota) + (impact === 'rewrites' ? bytes : 0);
}

const margin = (quota: number): number => Math.min(Math.max(quota * MARGIN_SHARE, MIN_MARGIN), MAX_MARGIN);

const HINT =
  'Reads, deletes and drops still work. DROP and TRUNCATE free space at once; DELETE frees it only after VACUUM FULL. ' +
  'Or ask the operator for a larger quota.';

const exceeded = ({ bytes, quota }: Usage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `The project uses ${roundedSize(bytes)} of disk; its quota is ${quotaText(quota)}`,
    {
      hint: HINT,
    },
  );

const ended = ({ bytes, quota }: Usage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `The statement was canceled and rolled back: with it, the project used ${roundedSize(bytes)} of disk; ` +
      `its quota is ${quotaText(quota)}`,
    {
      hint: 'VACUUM FULL removes the dead rows it left; Postgres removes those at the end of a table automatically.',
    },
  );
