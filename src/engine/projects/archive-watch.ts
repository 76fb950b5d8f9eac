/**
 * Checks at intervals whether the write-ahead log of projects reaches its archive: a restore to a point in time would
 * otherwise find out that it does not. For the log, `/readyz`, metrics, `cdp doctor` and `cdp project list`.
 */
import type { ArchiveState } from '../../backup/physical/archive-state.js';
import { runPeriodically } from '../../tasks.js';
import { singleFlight } from '../../promises.js';
import { messageOf } from '../../contract/errors.js';
import { isReady } from '../../contract/projects.js';
import type { Log } from '../../log.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Servers } from '../../tenancy/servers.js';

const CHECK_EVERY_MS = 15_000;

/** A project whose write-ahead log is archived. */
interface ArchivedProject extends ArchiveState {
  readonly name: string;
}

export class ArchiveWatch {
  /** By the project's id, at the last check. */
  private latest: ReadonlyMap<string, ArchivedProject> = new Map();
  /** Ids of projects whose failure was logged. */
  private readonly reportedFailures = new Set<string>();
  private stop = () => {};

  constructor(
    private readonly servers: Servers,
    private readonly list: () => Promise<ProjectRow[]>,
    private readonly log: Log,
  ) {}

  startWatching(): void {
    this.stop = runPeriodically(CHECK_EVERY_MS, 'watch_archives', () => this.check(), this.log, { isFirstNow: true });
  }

  get states(): ReadonlyMap<string, ArchivedProject> {
    return this.latest;
  }

  get failing(): ArchivedProject[] {
    return [...this.latest.values()].filter(({ failure }) => failure !== null);
  }

  /** Checks now. @throws EngineError database_unavailable */
  readonly check = singleFlight(async () => {
    const { defaultTenancy } = this.servers;
    const { files } = defaultTenancy;
    if (files === null) return this.latest;
    const { archiveStateOf } = await import('../../backup/physical/archive-state.js');
    const states = new Map<string, ArchivedProject>();
    for (const project of await this.list()) {
      const { id, name, placement } = project;
      if (placement.added !== null || !isReady(project)) continue;
      const { pool } = defaultTenancy.serverOf(placement);
      const state = await archiveStateOf(files, placement.server, pool).catch((error: unknown) => unreadable(error));
      if (state !== null) states.set(id, { name, ...state });
    }
    this.latest = states;
    this.report();
    return states;
  });

  close(): void {
    this.stop();
  }

  private report(): void {
    for (const [id, { name: project, failure, waiting, since }] of this.latest) {
      if ((failure !== null) === this.reportedFailures.has(id)) continue;
      if (failure === null) {
        this.reportedFailures.delete(id);
        this.log.info({ project }, 'the write-ahead log of a project is archived again');
      } else {
        this.reportedFailures.add(id);
        const fields = { project, cause: failure, waiting, since: since?.toISOString() };
        this.log.warn(fields, 'the write-ahead log of a project is not archived');
      }
    }
    for (const id of this.reportedFailures) if (!this.latest.has(id)) this.reportedFailures.delete(id);
  }
}

/** One project's files say nothing about the others. */
const unreadable = (error: unknown): ArchiveState => ({ waiting: 0, since: null, failure: messageOf(error) });
