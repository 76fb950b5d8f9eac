/**
 * Metrics by project (the setting `metrics-by-project`). Off by default: their labels are names of projects, and there
 * are as many series as projects.
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import { shared } from '../../contract/shared-promise.js';
import type { Load } from '../../engine/limits/slots.js';
import type { Engine } from '../../engine/engine.js';
import { type Samples, series } from './series.js';

/** Counts of a project since the start. */
interface Counts {
  /** Requests by the error's code; "" for a success. */
  readonly requests: Map<string, number>;
  rows: number;
}

export class ProjectMetrics {
  /** By project id, since another project may reuse a name. */
  private readonly counts = new Map<string, Counts>();
  /** The names of all projects by id, at the last refresh. */
  private names: ReadonlyMap<string, string> = new Map();

  /**
   * Runs once for all metrics that are collected together. While the control database is unavailable, the last known
   * names are used.
   */
  private readonly refresh = shared(() => this.readNames().catch(() => {}));

  constructor(
    private readonly engine: Engine,
    registers: Registry[],
  ) {
    const byProject = (
      kind: typeof Counter | typeof Gauge,
      name: string,
      help: string,
      label: string | null,
      samplesOf: (project: string, id: string) => Samples,
    ) =>
      series(registers, kind, name, help, label === null ? ['project'] : ['project', label], async () => {
        await this.refresh();
        return [...this.names].flatMap(([id, project]) => samplesOf(project, id));
      });
    const requestsHelp = 'Requests with a token of the project by error code ("" for a success).';
    byProject(Counter, 'cdp_project_requests_total', requestsHelp, 'code', (project, id) =>
      [...(this.counts.get(id)?.requests ?? [])].map(([code, count]) => [{ project, code }, count]),
    );
    // Exported from 0 on, so that Prometheus's increase() sees the first rows, too.
    const rowsHelp = 'Records stored by batch inserts of the project.';
    byProject(Counter, 'cdp_project_inserted_rows_total', rowsHelp, null, (project, id) => [
      [{ project }, this.counts.get(id)?.rows ?? 0],
    ]);
    const requests = (state: keyof Load, help: string) =>
      byProject(Gauge, `cdp_project_requests_${state}`, help, 'class', (project, id) =>
        Object.entries(engine.shared.database.capacities.load(id)).map(([kind, load]) => [
          { project, class: kind },
          load[state],
        ]),
      );
    requests('running', 'Requests of the project running in Postgres.');
    requests('waiting', 'Requests of the project waiting for a slot.');
  }

  /** @param code of the error; null: it succeeded */
  count(id: string, code: string | null, rows: number): void {
    let counts = this.counts.get(id);
    if (counts === undefined) this.counts.set(id, (counts = { requests: new Map(), rows: 0 }));
    counts.requests.set(code ?? '', (counts.requests.get(code ?? '') ?? 0) + 1);
    counts.rows += rows;
  }

  /** Reads the list of projects, and forgets others, which another instance or a command may have deleted. */
  private async readNames(): Promise<void> {
    // A project first counted after this point may be newer than the response.
    const counted = [...this.counts.keys()];
    const projects = await this.engine.projects.list();
    this.names = new Map(projects.filter(({ status }) => status !== 'deleting').map(({ id, name }) => [id, name]));
    for (const id of counted) if (!this.names.has(id)) this.counts.delete(id);
  }
}
