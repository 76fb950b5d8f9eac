/**
 * The disk quota of projects. Postgres has none, so the service looks at the size of a project's database while it is
 * being written to, refuses writes once it is over, and ends statements that go on growing it. Why like this:
 * docs/decisions/0019-disk-quota.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { quotaText, roundedSize } from '../contract/disk-size.js';
import { EngineError } from '../contract/errors.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import type { Clock } from './admission/deadline.js';

/** Bytes of a project's database; null if it is gone. */
type MeasureSize = (project: ProjectRow) => Promise<number | null>;

/** While a project has room, a look is used again for so long; then it is renewed, and nobody waits for that … */
const RENEW_MS = 2_000;
/** … except after a pause, in which other instances may have written. */
const TRUST_MS = 30_000;
/** While a project is over quota: it may have got room back by another instance, or by Postgres's own vacuum. */
const RECHECK_MS = 500;

/** After work that took so long, which may have written much, the next look is not waited for. */
const LARGE_WORK_MS = 100;

/** Looking takes longer the more tables there are; it may take this part of the time at most. */
const LOOK_SHARE = 0.2;

/** Nobody waits longer for a look to begin. */
const MAX_WAIT_MS = 2_000;

/** Work that takes longer is looked at again and again while it runs. */
const LOOK_EVERY_MS = 1_000;

/** What running work may add to the quota, so that what began with room left can end: a tenth, within these bounds. */
const MARGIN_SHARE = 0.1;
const MIN_MARGIN = 64 * 1024 * 1024;
const MAX_MARGIN = 1024 * 1024 * 1024;

/**
 * `none`: it only reads or drops. `rewrites`: a table is written anew before its old files go away (VACUUM FULL,
 * CLUSTER, REINDEX).
 */
export type Growth = 'none' | 'writes' | 'rewrites';

/** A project is over its quota. */
export interface Excess {
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
  lookedAt: number;
  /** When the next look may begin. */
  nextLookAt: number;
  looking: Promise<void> | null;
  /** Something was taken away since the last look began. */
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

  /** Projects that were over quota when this instance last looked. */
  get projectsOver(): number {
    let count = 0;
    for (const { least } of this.usages.values()) if (least !== null) count++;
    return count;
  }

  /**
   * @returns undefined where there is nothing to wait for
   * @throws EngineError quota_exceeded; database_unavailable where its size has to be looked at and cannot
   */
  requireRoom(project: ProjectRow): Promise<void> | undefined {
    const usage = this.usageOf(project);
    return usage === null ? undefined : this.refuseExcess(usage);
  }

  private async refuseExcess(usage: Usage): Promise<void> {
    const excess = await this.excessOf(usage);
    if (excess !== null) throw excess.error;
  }

  /** @returns null, at once, for a project without a quota. @throws EngineError database_unavailable */
  excess(project: ProjectRow): Promise<Excess | null> | null {
    const usage = this.usageOf(project);
    return usage === null ? null : this.excessOf(usage);
  }

  private async excessOf(usage: Usage): Promise<Excess | null> {
    const age = performance.now() - usage.lookedAt;
    if (usage.least === null ? age > TRUST_MS : usage.outdated || age > RECHECK_MS) await this.lookAgain(usage);
    else if (age > RENEW_MS) this.renew(usage);
    if (usage.least === null) return null;
    return { error: exceeded(usage), mayRunCode: usage.bytes <= usage.least + margin(usage.quota) };
  }

  /**
   * Keeps an eye on work that may write, until the function that it returns is called.
   * @param request is stopped when it goes too far, which may be at any time
   * @returns null where there is nothing to keep an eye on
   */
  watch(project: ProjectRow, growth: Growth, request: Stoppable): (() => void) | null {
    const usage = this.usageOf(project);
    if (usage === null) return null;
    const { works } = usage;
    const work = { since: performance.now(), limit: limitOf(usage, growth), request };
    works.add(work);
    this.atWork.add(usage);
    this.timer ??= setInterval(() => this.lookAtWork(), LOOK_EVERY_MS).unref();
    return () => {
      works.delete(work);
      if (works.size === 0) this.atWork.delete(usage);
      // It may have given room back, which the next write should have at once.
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

  /** null where the project has no quota. A quota that was changed holds as soon as the project's row is new. */
  private usageOf(project: ProjectRow): Usage | null {
    const { id, quotaBytes } = project;
    const quota = quotaBytes === null ? this.defaultBytes : quotaBytes === 0 ? null : quotaBytes;
    const known = this.usages.get(id);
    if (quota === null) {
      if (known !== undefined) this.usages.delete(id);
      return null;
    }
    if (known === undefined) {
      const usage: Usage = {
        project,
        quota,
        bytes: 0,
        lookedAt: -Infinity,
        nextLookAt: 0,
        looking: null,
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

  /** A look that began before something was taken away does not count. */
  private async lookAgain(usage: Usage): Promise<void> {
    if (usage.looking !== null) {
      await usage.looking;
      if (!usage.outdated) return;
    }
    await this.look(usage);
  }

  /** Nobody waits for it: where it fails, the next request that has to wait for a look will say so. */
  private renew(usage: Usage): void {
    this.look(usage).catch(() => {});
  }

  private look(usage: Usage): Promise<void> {
    usage.looking ??= this.takeLook(usage).finally(() => (usage.looking = null));
    return usage.looking;
  }

  private async takeLook(usage: Usage): Promise<void> {
    const early = usage.nextLookAt - performance.now();
    if (early > 0) await sleep(Math.min(early, MAX_WAIT_MS));
    usage.outdated = false;
    const startedAt = performance.now();
    // Where the database is gone, whatever comes next on it says so better.
    note(usage, (await this.measure(usage.project)) ?? 0);
    usage.lookedAt = startedAt;
    const endedAt = performance.now();
    usage.nextLookAt = endedAt + (endedAt - startedAt) * (1 / LOOK_SHARE - 1);
  }

  private lookAtWork(): void {
    for (const usage of this.atWork) {
      const isLong = ({ since }: Work) => performance.now() - since >= LOOK_EVERY_MS;
      if (usage.looking !== null || ![...usage.works].some(isLong)) continue;
      this.look(usage).then(
        () => {
          for (const work of usage.works)
            if (isLong(work) && usage.bytes > work.limit) work.request.stop(ended(usage), 'quota');
        },
        // Without a look nothing is ended; the next one is a second away.
        () => {},
      );
    }
  }
}

/** Takes in what a look has shown. */
function note(usage: Usage, bytes: number): void {
  usage.bytes = bytes;
  usage.least = bytes > usage.quota ? Math.min(usage.least ?? bytes, bytes) : null;
}

/** Bytes of the whole database beyond which work is ended. */
function limitOf({ quota, least, bytes }: Usage, growth: Growth): number {
  if (growth === 'none') return Infinity;
  return Math.max(quota, least ?? 0) + margin(quota) + (growth === 'rewrites' ? bytes : 0);
}

const margin = (quota: number): number => Math.min(Math.max(quota * MARGIN_SHARE, MIN_MARGIN), MAX_MARGIN);

const HINT =
  'Reads, deletes and drops still work. DROP and TRUNCATE give room back at once, DELETE with a VACUUM FULL behind it; ' +
  'or ask the operator for a larger quota.';

const exceeded = ({ bytes, quota }: Usage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `The project takes ${roundedSize(bytes)} on disk; its quota is ${quotaText(quota)}`,
    {
      hint: HINT,
    },
  );

const ended = ({ bytes, quota }: Usage): EngineError =>
  new EngineError(
    'quota_exceeded',
    `The statement was ended and undone: with it, the project took ${roundedSize(bytes)} on disk; ` +
      `its quota is ${quotaText(quota)}`,
    {
      hint: 'The dead rows it left go with VACUUM FULL; those at the end of a table, Postgres clears away by itself.',
    },
  );
