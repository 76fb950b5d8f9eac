/** The endpoints of operators and their tools (contract C17): liveness, readiness, metrics, OpenAPI. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { EngineError } from '../../contract/errors.js';
import { isLoopback } from '../../ip-address.js';
import type { Engine } from '../../engine/engine.js';
import { authorize, bearerToken } from '../admission.js';
import { isOwnHost, misdirected } from '../edge/own-host.js';
import type { Metrics } from '../observability/metrics.js';

/** Liveness: the process answers even if its database is unavailable. */
export const alive = () => ({ success: true, message: 'alive' });

interface MonitoringSettings {
  document: object;
  separateMetrics: boolean;
  /** Whether the first start creates a project and shows its token. */
  showsFirstToken: boolean;
  /** The address or name on which the service listens. */
  host: string;
}

export function monitoringRoutes(
  app: FastifyInstance,
  engine: Engine,
  metrics: Metrics,
  { document, separateMetrics, showsFirstToken, host }: MonitoringSettings,
): void {
  app.get('/healthz', alive);

  app.get('/readyz', async (request) => {
    // Migrations run before the server listens. A client that waits for the first start wants the token of the first
    // project.
    const isFirstStart = await engine.control.isFirstStart();
    if (showsFirstToken && isFirstStart) throw new EngineError('overloaded', 'The first project is being created');
    const servers = engine.serverWatch.states.filter(({ isUp }) => !isUp).map(({ server }) => server);
    const archives = engine.archiveWatch.failing.map(({ name }) => name);
    const isDiskFull = !(await engine.control.canWriteFiles());
    const backup = await backupFault(engine);
    const { isReadOnly } = engine.servers.defaultTenancy;
    if (servers.length + archives.length === 0 && !isDiskFull && !isReadOnly && backup === null)
      return { success: true, message: 'ready' };
    const details = {
      servers,
      ...(archives.length > 0 ? { archives } : {}),
      ...(isDiskFull ? { disk: 'full' } : isReadOnly ? { disk: 'read-only' } : {}),
      ...(backup === null ? {} : { backup }),
    };
    // Still ready: reads work, and so do projects elsewhere. Only operators see the details.
    return {
      success: true,
      message: 'degraded',
      ...(isFromHere(request) && isOwnHost(request, host) ? details : {}),
    };
  });

  app.get('/openapi.json', () => document);

  // No page of another origin may read these through an operator's browser on loopback.
  app.get('/metrics', { config: { cors: false } }, async (request, reply) => {
    const { context, headers } = request;
    context.route = { audit: { operation: 'metrics', isChange: true } };
    const needsToken = separateMetrics || !isFromHere(request);
    const isRebound = !needsToken && !isOwnHost(request, host);
    if (isRebound && headers.authorization === undefined) throw misdirected();
    if (needsToken || isRebound) {
      context.caller = await engine.authenticator.authenticate(bearerToken(headers), context.address);
      authorize(context.caller, 'admin');
    }
    return metrics.send(reply);
  });
}

/** @returns null if the backups of the setting `backup-to` are as they should be, or there is no such setting */
async function backupFault({ backupPlan }: Engine): Promise<'failed' | 'overdue' | null> {
  const state = await backupPlan?.state();
  if (state?.last?.error != null) return 'failed';
  return state?.isOverdue === true ? 'overdue' : null;
}

/** Judged by the socket, not by a header that anyone can send. */
function isFromHere({ socket, headers }: FastifyRequest): boolean {
  // A proxy on this machine forwards requests from elsewhere.
  if (headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined) return false;
  return isLoopback(socket.remoteAddress ?? '');
}
