/**
 * The disk quota of projects. Postgres has none, so the service measures a project's database while it is being written
 * to, rejects writes once it is over, and ends statements that keep growing it. Reasons:
 * docs/decisions/0019-disk-quota.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { quotaText, roundedSize } from '../../contract/disk-size.js';
import { EngineError } from '../../contract/errors.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import type { Clock } from './deadline.js';

/** Bytes of a project's database; null if they are unknown, or it is gone. */
type MeasureSize = (project: ProjectRow) => Promise<number | null>;

/** While a project is within its quota, a measurement is used for this long; then it is renewed in the background … */
const RENEW_MS = 2_000;
/** … except after a pause, in which other instances may have written: then requests wait for a new one. */
const TRUST_MS = 30_000;
/** While a project is over its quota: another instance, or Postgres's own vacuum, may have freed space. */
const RECHECK_MS = 500;

/** Work that took longer may have written much: the size is measured again after it. */
const LARGE_WORK_MS = 100;

/** Measuring takes longer the more tables there are; this is the most of the time that it may take. */
const MEASURING_SHARE = 0.2;

/** A request waits this long at most for a measurement to begin. */
const MAX_WAIT_MS = 2_000;

/** While work runs that takes longer, the size is measured at this interval. */
const MEASURE_EVERY_MS = 1_000;

/** What running work may add to the quota, so that what began within it can end: a tenth, within these bounds. */
const MARGIN_SHARE = 0.1;
const MIN_MARGIN = 64 * 1024 * 1024;
const MAX_MARGIN = 1024 * 1024 * 1024;

/**
 * What work may do to the size of its project. `none`: it only reads or drops. `rewrites`: new files are written before
 * the old ones go away (VACUUM FULL, CLUSTER, REINDEX).
 */
export type QuotaImpact = 'none' | 'writes' | 'rewrites';

/** A project is over its quota. */
export interface OverQuota {
  readonly error: EngineError;
  /** False once it has grown further by what ran along with deletes (triggers, functions): then only drops help. */
  readonly mayRunCode: boolean;
}

type Stoppable = Pick<Clock, 'stop'>;

interface Work {
  readonly since: number;
  /** Bytes of the whole database. */
  readonly limit: number;
  readonly request: Stoppable;
}

/** What is known of one project. */
interface Usage {
  project: ProjectRow;
  quota: number;
  bytes: number;
  /** On the clock of `performance.now()`. */
  measuredAt: number;
  /** When the next measurement may begin. */
  nextMeasurementAt: number;
  measuring: Promise<void> | null;
  /** Something was removed since the last measurement began. */
  outdated: boolean;
  /** The least size since the project went over its quota; null: it is not over. */
  least: number | null;
  readonly works: Set<Work>;
}

export class Quotas {
  private readonly usages = new Map<string, Usage>();
  private readonly atWork = new Set<Usage>();
  private timer: NodeJS.Timeout | undefined;

  /** @param defaultBytes of projects without a quota of their own; null: none */
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
   * @throws EngineError quota_exceeded; database_unavailable if its size has to be measured and cannot
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
   * @param request is stopped if it goes too far, which may be at any time
   * @returns ends the watch; null if there is nothing to watch
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
      // It may have freed space, which the next write should find at once.
      if (usage.least !== null) usage.outdated = true;
      else if (performance.now() - work.since > LARGE_WORK_MS) this.renew(usage);
    };
  }

  /** The project is gone. */
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

  /** A measurement that began before something was removed does not count. */
  private async measureAgain(usage: Usage): Promise<void> {
    if (usage.measuring !== null) {
      await usage.measuring;
      if (!usage.outdated) return;
    }
    await this.startMeasuring(usage);
  }

  /** In the background: if it fails, the next request that has to wait for a measurement reports that. */
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
    // If the database is gone, the next use of it reports that better. A node of a cluster that is away has not become
    // smaller.
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
        // Without a measurement nothing is ended; the next one is a second away.
        () => {},
      );
    }
  }
}

/** Takes in what was measured. */
function note(usage: Usage, bytes: number): void {
  usage.bytes = bytes;
  usage.least = bytes > usage.quota ? Math.min(usage.least ?? bytes, bytes) : null;
}

/** Bytes of the whole database beyond which work is ended. */
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
