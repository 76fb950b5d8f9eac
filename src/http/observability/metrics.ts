/**
 * Prometheus metrics (contract section 9). No label contains a table or anything else chosen by a caller; a project
 * only if the operator asks for it.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Load } from '../../engine/limits/slots.js';
import { STOP_REASONS } from '../../engine/limits/deadline.js';
import type { Engine } from '../../engine/engine.js';
import { patternOf } from '../known-paths.js';
import { ProjectMetrics } from './project-metrics.js';
import { series } from './series.js';
import { serverMetrics } from './server-metrics.js';
import { sessionMetrics } from './session-metrics.js';

/** Seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

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
    const { caller, errorCode, route: served, rows, started } = request.context;
    const { method } = request;
    const route = routeOf(request);
    this.requests.inc({ route, method, status: raw.statusCode, code: errorCode ?? '' });
    this.durations.observe({ route, method }, (performance.now() - started) / 1_000);
    const inserted = served?.audit === 'insert' && errorCode === null ? (rows ?? 0) : 0;
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
    series(registers, Gauge, `cdp_requests_${state}`, help, ['class'], () =>
      Object.entries(engine.load.requests).map(([kind, load]) => [{ class: kind }, load[state]]),
    );
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
  gauge('cdp_project_servers_running', 'Postgres servers of projects that are running.', () => engine.load.servers);
  const quotaHelp = 'Projects over their disk quota at the last check by this instance.';
  gauge('cdp_projects_over_quota', quotaHelp, () => engine.load.overQuota);
  gauge('cdp_audit_waiting', 'Entries of the audit log not yet written.', () => engine.audit.backlog);
  const lostHelp = 'Entries of the audit log that could not be written.';
  series(registers, Counter, 'cdp_audit_lost_total', lostHelp, [], () => [[{}, engine.audit.lost]]);
}
