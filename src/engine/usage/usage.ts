/**
 * Counts what projects use, in memory, and adds it to the control database about each minute, in one statement for all. A
 * process that dies loses what it has counted since.
 */
import { COUNTERS, noUsage, type UsageCounts, type Way } from '../../contract/usage.js';
import { fromPostgres } from '../../tenancy/postgres-errors.js';
import type { Log } from '../../log.js';
import { runPeriodically } from '../../tasks.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { UsageFilter, UsageRow, UsageRows } from '../../tenancy/control/usage-rows.js';

export type { UsageRow };

type UsedBy = Pick<ProjectRow, 'id' | 'name'>;

interface Used {
  readonly day: string;
  readonly project: UsedBy;
  awakeMs: number;
  readonly ways: Partial<Record<Way, UsageCounts>>;
}

/** What counts by itself, and is asked before each write. */
export interface UsageSources {
  /** Adds what has been counted since the last call. */
  collect(): void;
  projects(): Promise<readonly ProjectRow[]>;
  /** How long each server has run since the last call, in milliseconds; by their names in placements. */
  takeAwakeMs(): ReadonlyMap<string, number>;
  /** Bytes; null: unknown. */
  sizeOf(project: ProjectRow): Promise<number | null>;
}

const WRITE_MS = 60_000;

/** How often sizes are measured: the largest of a day counts. */
const MEASURE_MS = 3_600_000;

const today = (): string => new Date().toISOString().slice(0, 10);

export class Usage {
  private used = new Map<string, Used>();
  private sources: UsageSources | null = null;
  private measuredAt = -Infinity;
  private readonly stop: () => void;

  constructor(
    private readonly rows: UsageRows,
    log: Log,
  ) {
    this.stop = runPeriodically(WRITE_MS, 'count_usage', () => this.write(), log);
  }

  /** Sets what counts by itself. */
  connect(sources: UsageSources): void {
    this.sources = sources;
  }

  add(project: UsedBy, way: Way, counts: Partial<UsageCounts>): void {
    const sum = (this.of(project).ways[way] ??= noUsage());
    for (const name of COUNTERS) sum[name] += counts[name] ?? 0;
  }

  /** Writes what was counted; if that fails, the next write has it, too. @throws EngineError database_unavailable */
  async write(): Promise<void> {
    const { sources } = this;
    if (sources !== null) {
      sources.collect();
      await this.addAwake(sources);
      if (performance.now() - this.measuredAt > MEASURE_MS) await this.measure();
    }
    await this.writeCounts();
  }

  /** Notes the sizes of all projects, one after the other. */
  async measure(): Promise<void> {
    const { sources } = this;
    if (sources === null) return;
    this.measuredAt = performance.now();
    const sizes: Pick<UsageRow, 'day' | 'project_id' | 'project' | 'bytes_stored'>[] = [];
    for (const project of await sources.projects()) {
      // Of a server that does not answer, nothing is known; the next measurement may find it.
      const bytes_stored = await sources.sizeOf(project).catch(() => null);
      if (bytes_stored !== null)
        sizes.push({ day: today(), project_id: project.id, project: project.name, bytes_stored });
    }
    await this.rows.noteSizes(sizes);
  }

  read(filter: UsageFilter): Promise<UsageRow[]> {
    return this.rows.read(filter);
  }

  /** Writes the last counts, if the control database answers. */
  async close(): Promise<void> {
    this.stop();
    this.sources?.collect();
    // It is lost, as after a crash.
    await this.writeCounts().catch(() => {});
  }

  private of(project: UsedBy): Used {
    const day = today();
    const key = `${day} ${project.id}`;
    const existing = this.used.get(key);
    if (existing !== undefined) return existing;
    const used = { day, project, awakeMs: 0, ways: {} };
    this.used.set(key, used);
    return used;
  }

  private async addAwake(sources: UsageSources): Promise<void> {
    const awake = sources.takeAwakeMs();
    if (awake.size === 0) return;
    for (const project of await sources.projects()) {
      const ms = project.placement.added === null ? awake.get(project.placement.server) : undefined;
      if (ms !== undefined) this.of(project).awakeMs += ms;
    }
  }

  private async writeCounts(): Promise<void> {
    if (this.used.size === 0) return;
    const { used } = this;
    this.used = new Map();
    try {
      await this.rows.add(
        [...used.values()].map(({ day, project, awakeMs, ways }) => ({
          ...{ day, project_id: project.id, project: project.name, awake_ms: Math.round(awakeMs) },
          ways: Object.fromEntries(Object.entries(ways).map(([way, counts]) => [way, whole(counts)])),
        })),
      );
    } catch (error) {
      this.putBack(used);
      throw fromPostgres(error);
    }
  }

  private putBack(used: ReadonlyMap<string, Used>): void {
    for (const [key, { day, project, awakeMs, ways }] of used) {
      const since = this.used.get(key) ?? { day, project, awakeMs: 0, ways: {} };
      this.used.set(key, since);
      since.awakeMs += awakeMs;
      for (const [way, counts] of Object.entries(ways) as [Way, UsageCounts][]) {
        const sum = (since.ways[way] ??= noUsage());
        for (const name of COUNTERS) sum[name] += counts[name];
      }
    }
  }
}

const whole = (counts: UsageCounts): UsageCounts => ({ ...counts, statement_ms: Math.round(counts.statement_ms) });
