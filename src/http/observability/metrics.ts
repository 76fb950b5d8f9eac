/**
 * Prometheus metrics (contract C17.3). No label contains a table or anything else chosen by a caller; a project
 * only if the operator asks for it.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { taskFailures } from '../../tasks.js';
import { singleFlight } from '../../promises.js';
import { STOP_REASONS } from '../../db/backend-request.js';
import type { Load, SlotClass } from '../../db/slots.js';
import type { Engine } from '../../engine/engine.js';
import type { PortSessions } from '../../engine/sessions/sessions.js';
import { patternOf } from '../known-paths.js';
import { backupMetrics } from './backup-metrics.js';
import { type Samples, series, serverMetrics } from './server-metrics.js';

/** Seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

const byClass = (loads: Record<SlotClass, Load>, state: keyof Load, labels: Record<string, string> = {}): Samples =>
  (['typed', 'sql'] as const).map((slot) => [{ ...labels, class: slot }, loads[slot][state]]);

export class Metrics {
  private readonly registry = new Registry();
  private readonly requests: Counter;
  private readonly durations: Histogram;
  private readonly rows: Counter;
  /** null: not configured. */
  private readonly byProject: ProjectMetrics | null;

  /** @param byProject whether to add metrics by project */
  constructor(engine: Engine, byProject: boolean) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.requests = new Counter({
      name: 'cdp_http_requests_total',
      help: 'Requests by route, method, status and error code ("" for a success).',
      labelNames: ['route', 'method', 'status', 'code'],
      registers,
    });
    this.durations = new Histogram({
      name: 'cdp_http_request_duration_seconds',
      help: 'Time from the request line to the last byte of the response.',
      labelNames: ['route', 'method'],
      buckets: BUCKETS,
      registers,
    });
    this.rows = new Counter({ name: 'cdp_inserted_rows_total', help: 'Records stored by batch inserts.', registers });
    engineMetrics(engine, registers);
    serverMetrics(engine, registers);
    backupMetrics(engine, registers);
    eventMetrics(engine, registers);
    feedMetrics(engine, registers);
    webhookMetrics(engine, registers);
    if (engine.sessions !== null) sessionMetrics(engine.sessions, registers);
    this.byProject = byProject ? new ProjectMetrics(engine, registers) : null;
  }

  /** Sends all metrics in Prometheus's text format. */
  async send(reply: FastifyReply): Promise<FastifyReply> {
    const text = await this.registry.metrics();
    return reply.type(this.registry.contentType).send(text);
  }

  /** Counts an ended request. */
  count(request: FastifyRequest, { raw }: FastifyReply): void {
    const { caller, errorCode, route: served, rows, startedAt } = request.context;
    const { method } = request;
    const route = routeOf(request);
    this.requests.inc({ route, method, status: raw.statusCode, code: errorCode ?? '' });
    this.durations.observe({ route, method }, (performance.now() - startedAt) / 1_000);
    const inserted = served?.audit.operation === 'insert' && errorCode === null ? (rows ?? 0) : 0;
    if (inserted > 0) this.rows.inc(inserted);
    if (caller?.project != null) this.byProject?.count(caller.project.id, errorCode, inserted);
  }
}

export const routeOf = (request: FastifyRequest): string => patternOf(request) ?? 'unknown';

/** What this instance has open, and what it stopped. */
function engineMetrics(engine: Engine, registers: Registry[]): void {
  const gauge = (name: string, help: string, value: () => number) =>
    series(registers, Gauge, name, help, [], () => [[{}, value()]]);
  const requests = (state: keyof Load, help: string) =>
    series(registers, Gauge, `cdp_requests_${state}`, help, ['class'], () => byClass(engine.load.requests, state));
  requests('running', 'Requests running in Postgres: typed (inserts, schema calls) and sql.');
  requests('waiting', 'Requests waiting for a slot.');
  const stopsHelp = 'Statements that the service canceled, by reason.';
  series(registers, Counter, 'cdp_statements_canceled_total', stopsHelp, ['reason'], () =>
    STOP_REASONS.map((reason) => [{ reason }, engine.load.stops.get(reason) ?? 0]),
  );
  const connections = (name: string, help: string, value: 'open' | 'max') =>
    series(registers, Gauge, name, help, ['server'], () =>
      engine.load.connections.map(({ server, ...one }) => [{ server }, one[value]]),
    );
  const openHelp = "Open connections to projects' databases, by server.";
  connections('cdp_project_connections', openHelp, 'open');
  const maxHelp = "Maximum number of connections to projects' databases, by server.";
  connections('cdp_project_connections_max', maxHelp, 'max');
  gauge(
    'cdp_project_servers_running',
    'Postgres servers of projects that are running.',
    () => engine.load.runningServers,
  );
  const crashesHelp = 'How often a Postgres server of a project ended unexpectedly, or did not start.';
  series(registers, Counter, 'cdp_project_crashes_total', crashesHelp, [], () => [[{}, engine.load.failures]]);
  const notStartingHelp = 'Projects whose Postgres server did not start when it was last needed.';
  gauge('cdp_projects_not_starting', notStartingHelp, () => engine.load.notStarting);
  const quotaHelp = 'Projects over their disk quota at the last check by this instance.';
  gauge('cdp_projects_over_quota', quotaHelp, () => engine.load.overQuota);
  const damageHelp = 'Times that a statement or a backup found damaged data on the disk of Postgres.';
  series(registers, Counter, 'cdp_damaged_data_total', damageHelp, [], () => [[{}, engine.corruption.count]]);
  const lateHelp = 'For how many seconds a schedule has waited for an instance that begins it; 0: none waits.';
  // While the control database is away, a scrape lacks only this.
  const late = () => engine.control.schedules.lateSeconds().catch(() => NaN);
  series(registers, Gauge, 'cdp_schedule_late_seconds', lateHelp, [], async () => [[{}, await late()]]);
  gauge('cdp_audit_waiting', 'Entries of the audit log not yet written.', () => engine.audit.backlog);
  const tasksHelp = 'Failed runs of what the service does at intervals, by task; the log says what was not done.';
  series(registers, Counter, 'cdp_task_failures_total', tasksHelp, ['task'], () =>
    [...taskFailures()].map(([task, count]) => [{ task }, count]),
  );
  const lostHelp = 'Entries of the audit log that could not be written.';
  series(registers, Counter, 'cdp_audit_lost_total', lostHelp, [], () => [[{}, engine.audit.lost]]);
}

// What the tracking API has done with events.

function eventMetrics({ eventCounts }: Engine, registers: Registry[]): void {
  const counter = (name: string, help: string, count: () => number) =>
    series(registers, Counter, name, help, [], () => [[{}, count()]]);
  counter('cdp_events_stored_total', 'Events of the tracking API that were stored.', () => eventCounts.stored);
  const duplicatesHelp = 'Events that were stored before, and stored nothing.';
  counter('cdp_events_duplicate_total', duplicatesHelp, () => eventCounts.duplicates);
  const quarantinedHelp = 'Events that were wrong, or that a table refused.';
  counter('cdp_events_quarantined_total', quarantinedHelp, () => eventCounts.quarantined);
  const unmappedHelp = 'Values of events without a column that takes them; they are in the column "unmapped".';
  counter('cdp_events_unmapped_values_total', unmappedHelp, () => eventCounts.unmapped);
  const tablesHelp = 'Tables for names of events that were not made, since the project had as many as it may have.';
  counter('cdp_event_tables_refused_total', tablesHelp, () => eventCounts.refusedTables);
}

function feedMetrics({ feeds }: Engine, registers: Registry[]): void {
  const statusHelp =
    'Feeds of changes by status: reading, at_rest (the server is stopped, all is stored), behind (changes are not being stored).';
  series(registers, Gauge, 'cdp_feeds', statusHelp, ['status'], async () => {
    const { status } = await feeds.load();
    return (['reading', 'at_rest', 'behind'] as const).map((name) => [{ status: name }, status.get(name) ?? 0]);
  });
  const walHelp =
    'Slots of feeds by wal_status, as Postgres calls it, when they were last looked at, at most a minute ago.';
  series(registers, Gauge, 'cdp_feed_slots', walHelp, ['wal_status'], async () => {
    const { walStatus } = await feeds.load();
    return WAL_STATUSES.map((name) => [{ wal_status: name }, walStatus.get(name) ?? 0]);
  });
  const keptHelp =
    'The most WAL that a server keeps for its feed, when they were last looked at, at most a minute ago.';
  series(registers, Gauge, 'cdp_feed_wal_bytes', keptHelp, [], async () => [[{}, (await feeds.load()).keptBytes]]);
}

const WAL_STATUSES = ['reserved', 'extended', 'unreserved', 'lost'] as const;

function webhookMetrics({ webhooks }: Engine, registers: Registry[]): void {
  const statesHelp =
    'Webhooks by state: active, failing (the last attempt was not confirmed), stopped (the service has paused it).';
  series(registers, Gauge, 'cdp_webhooks', statesHelp, ['state'], () =>
    [...webhooks.load].map(([state, count]) => [{ state }, count]),
  );
  const deliveriesHelp = 'Attempts to deliver changes to endpoints of webhooks, by outcome: delivered or failed.';
  series(registers, Counter, 'cdp_webhook_deliveries_total', deliveriesHelp, ['outcome'], () =>
    (['delivered', 'failed'] as const).map((outcome) => [{ outcome }, webhooks.counts[outcome]]),
  );
  const changesHelp = 'Changes that endpoints of webhooks have confirmed.';
  series(registers, Counter, 'cdp_webhook_changes_total', changesHelp, [], () => [[{}, webhooks.counts.changes]]);
}

// Metrics of the Postgres port, if it is on: sessions, bytes and refused logins.

function sessionMetrics(sessions: PortSessions, registers: Registry[]): void {
  series(registers, Gauge, 'cdp_pg_sessions', 'Open sessions of Postgres clients.', ['user'], () =>
    Object.entries(sessions.load.sessions).map(([user, count]) => [{ user }, count]),
  );
  const bytesHelp = 'Bytes received from Postgres clients, and sent to them, in sessions.';
  series(registers, Counter, 'cdp_pg_bytes_total', bytesHelp, ['direction'], () => {
    const { received, sent } = sessions.load;
    return [
      [{ direction: 'received' }, received],
      [{ direction: 'sent' }, sent],
    ];
  });
  const byReason = (name: string, help: string, counts: ReadonlyMap<string, number>) =>
    series(registers, Counter, name, help, ['reason'], () => [...counts].map(([reason, count]) => [{ reason }, count]));
  const refusedHelp = 'Logins of Postgres clients that were refused, by reason.';
  byReason('cdp_pg_logins_refused_total', refusedHelp, sessions.refused);
  const endedHelp = 'Sessions of Postgres clients that the service or Postgres ended, by reason.';
  byReason('cdp_pg_sessions_ended_total', endedHelp, sessions.ended);
}

// Metrics by project (the setting `metrics-by-project`). Off by default: their labels are names of projects, and
// there are as many series as projects.

/** Counts of a project since the start. */
interface ProjectCounts {
  /** Requests by the error's code; "" for a success. */
  readonly requests: Map<string, number>;
  rows: number;
}

class ProjectMetrics {
  /** By project id, since another project may reuse a name. */
  private readonly counts = new Map<string, ProjectCounts>();
  /** The names of all projects by id, at the last refresh. */
  private names: ReadonlyMap<string, string> = new Map();

  /**
   * Runs once for all metrics that are collected together. While the control database is unavailable, the last known
   * names are used.
   */
  private readonly refresh = singleFlight(() => this.readNames().catch(() => {}));

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
        byClass(engine.databaseAccess.capacities.load(id), state, { project }),
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
