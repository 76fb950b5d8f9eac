/**
 * The disk quota of projects. Postgres has no quotas, so the service measures a project's database while it is written
 * to, rejects writes if it is over its quota, and cancels statements that keep growing it. Reasons:
 * docs/decisions/0019-disk-quota.md.
 */
import { quotaText, roundedSize } from '../contract/disk-size.js';
import { EngineError } from '../contract/errors.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { RequestTimer } from './backend-request.js';
import { DiskUsage, type MeasureSize } from './disk-usage.js';

/** Work that took longer may have written a lot: the size is measured again after it. */
const LARGE_WORK_MS = 100;

/** While longer work runs, the size is measured at this interval. */
const MEASURE_EVERY_MS = 1_000;

/**
 * What work does to the size of its project. `none`: it only reads or drops. `may grow`: it runs even over the quota, but
 * is canceled if it grows the project too far. `frees`: like `may grow`, but goes on while the disk is nearly full
 * (DELETE, TRUNCATE). `grows`: it also needs room to begin. `rewrites`: like `frees`, but writes new files before the old
 * ones are removed (VACUUM FULL, CLUSTER, REINDEX).
 */
export type Growth = 'none' | 'may grow' | 'frees' | 'grows' | 'rewrites';

/** Whether work that has written ends once the disk is nearly full. */
export const endsWithoutRoom = (growth: Growth): boolean => growth === 'grows' || growth === 'may grow';

/** A project is over its quota, or its disk is nearly full. */
export interface OverQuota {
  readonly error: EngineError;
  /**
   * The error for deletes, if it has grown further because code ran with them (triggers, functions): then only drops are
   * allowed.
   */
  readonly errorForCode: EngineError | null;
}

type Stoppable = Pick<RequestTimer, 'stopRequest'>;

interface LimitedWork {
  readonly since: number;
  /** Bytes of the whole database. */
  readonly limit: number;
  readonly request: Stoppable;
}

/** A project with a quota, and the work that may make it larger. */
interface WatchedProject {
  readonly usage: DiskUsage;
  readonly works: Set<LimitedWork>;
}

export class Quotas {
  private readonly projects = new Map<string, WatchedProject>();
  private readonly atWork = new Set<WatchedProject>();
  private timer: NodeJS.Timeout | undefined;

  /**
   * @param defaultBytes the quota of projects without their own; null: none
   * @param lackOfRoom what may not be written while the disk of the project's server is nearly full; null: it has room
   */
  constructor(
    private readonly measure: MeasureSize,
    private readonly defaultBytes: number | null,
    private readonly lackOfRoom: (project: ProjectRow) => OverQuota | null,
  ) {}

  /** Projects that were over their quota when this instance last measured them. */
  get projectsOver(): number {
    return [...this.projects.values()].filter(({ usage }) => usage.isOverQuota).length;
  }

  /**
   * @returns undefined if there is nothing to wait for
   * @throws EngineError quota_exceeded; disk_full; database_unavailable if the size has to be measured and cannot be
   */
  requireRoom(row: ProjectRow, growth: Growth): Promise<void> | undefined {
    if (growth !== 'grows' && growth !== 'frees') return undefined;
    return this.overQuota(row)?.then((over) => {
      const error = growth === 'grows' ? over?.error : over?.errorForCode;
      if (error != null) throw error;
    });
  }

  /** Whether the project can only be read, because its disk is nearly full. */
  isDiskLow(row: ProjectRow): boolean {
    return this.lackOfRoom(row) !== null;
  }

  /**
   * A nearly full disk counts as well.
   * @returns null, at once, for a project without a quota. @throws EngineError database_unavailable
   */
  overQuota(row: ProjectRow): Promise<OverQuota | null> | null {
    const lack = this.lackOfRoom(row);
    if (lack !== null) return Promise.resolve(lack);
    const watched = this.watched(row);
    return watched === null ? null : this.check(watched.usage);
  }

  private async check(usage: DiskUsage): Promise<OverQuota | null> {
    await usage.refresh();
    if (!usage.isOverQuota) return null;
    return { error: exceeded(usage), errorForCode: usage.isNearLeast ? null : grownByCode(usage) };
  }

  /**
   * Watches work that may write.
   * @param request may be stopped at any time, if it grows the project too far
   * @returns a function that ends the watch; null if there is nothing to watch
   */
  watch(row: ProjectRow, growth: Growth, request: Stoppable): (() => void) | null {
    const watched = this.watched(row);
    if (watched === null) return null;
    const { usage, works } = watched;
    const work = { since: performance.now(), limit: limitOf(usage, growth), request };
    works.add(work);
    this.atWork.add(watched);
    this.timer ??= setInterval(() => this.checkWork(), MEASURE_EVERY_MS).unref();
    return () => {
      works.delete(work);
      if (works.size === 0) this.atWork.delete(watched);
      if (usage.isOverQuota) usage.outdate();
      else if (performance.now() - work.since > LARGE_WORK_MS) usage.renew();
    };
  }

  /** The quota of a project in bytes; null: none. */
  quotaOf({ quotaBytes }: ProjectRow): number | null {
    return quotaBytes === null ? this.defaultBytes : quotaBytes === 0 ? null : quotaBytes;
  }

  /** Call this if the project is gone. */
  forget(projectId: string): void {
    this.projects.delete(projectId);
  }

  close(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** null if the project has no quota. */
  private watched(row: ProjectRow): WatchedProject | null {
    const { id } = row;
    const quota = this.quotaOf(row);
    if (quota === null) {
      this.projects.delete(id);
      return null;
    }
    const existing = this.projects.get(id);
    existing?.usage.update(row, quota);
    const watched = existing ?? { usage: new DiskUsage(this.measure, row, quota), works: new Set() };
    if (existing === undefined) this.projects.set(id, watched);
    return watched;
  }

  private checkWork(): void {
    for (const { usage, works } of this.atWork) {
      const isLong = ({ since }: LimitedWork) => performance.now() - since >= MEASURE_EVERY_MS;
      if (usage.isBeingMeasured || ![...works].some(isLong)) continue;
      usage.startMeasuring().then(
        () => {
          for (const work of works) {
            if (isLong(work) && usage.bytes > work.limit) work.request.stopRequest(stopReason(usage), 'quota');
          }
        },
        // Without a measurement nothing is canceled; the next one comes in a second.
        () => {},
      );
    }
  }
}

/** The size of the whole database beyond which work is canceled, in bytes. */
const limitOf = ({ limit, bytes }: DiskUsage, growth: Growth): number =>
  growth === 'none' ? Infinity : limit + (growth === 'rewrites' ? bytes : 0);

const HINT =
  'Reads, deletes and drops still work. DROP and TRUNCATE free space at once; DELETE frees it only after VACUUM FULL. ' +
  'Or ask the operator for a larger quota.';

const exceeded = ({ bytes, quota }: DiskUsage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `The project uses ${roundedSize(bytes)} of disk; its quota is ${quotaText(quota)}`,
    {
      hint: HINT,
    },
  );

const grownByCode = (usage: DiskUsage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `${exceeded(usage).message}. Triggers or functions run by deletes have made it grow further`,
    { hint: 'Until it shrinks, only reads, VACUUM and requests that consist of drops are allowed.' },
  );

const stopReason = ({ bytes, quota }: DiskUsage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `The statement was canceled and rolled back: with it, the project used ${roundedSize(bytes)} of disk; ` +
      `its quota is ${quotaText(quota)}`,
    {
      hint: 'VACUUM FULL removes the dead rows it left; Postgres removes those at the end of a table automatically.',
    },
  );
