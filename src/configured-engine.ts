/** Opens the engine as the settings say, on an open database: for the service and the management commands. */
import type { Logger } from 'pino';
import { CONNECTIONS_ELSEWHERE, type ServicePostgres } from './postgres.js';
import type { Engine } from './engine/engine.js';
import type { SessionSettings } from './engine/sessions/sessions.js';
import type { Settings } from './settings.js';

/**
 * @param options.signal if aborted, a wait for other instances or for a standby ends with its reason
 * @param options.waiting told, in words, what the start waits for; default: a warning in the log
 */
export async function openConfiguredEngine(
  config: Settings,
  postgres: ServicePostgres,
  logger: Logger,
  {
    signal,
    waiting = (what) => logger.warn(what),
  }: { signal?: AbortSignal | undefined; waiting?: (what: string) => void } = {},
): Promise<Engine> {
  const engine = await import('./engine/open-engine.js');
  const { address, embedded, maxConnections, secret } = postgres;
  const { jwtIssuer, jwtAudience, jwtJwksUrl } = config;
  const jwt =
    jwtIssuer === null || jwtAudience === null || jwtJwksUrl === null
      ? null
      : { issuer: jwtIssuer, audience: jwtAudience, jwksUrl: new URL(jwtJwksUrl) };
  const sessions = config.pgPort === null ? null : portSettings(config);
  const secretPrevious = embedded === null ? config.secretPrevious : null;
  const settings = {
    ...config,
    maxConnections,
    addedConnections: config.maxConnections ?? CONNECTIONS_ELSEWHERE,
    address,
    embedded,
    secret,
    secretPrevious,
    jwt,
    sessions,
    log: logger,
    waiting,
  };
  return engine.openEngine(settings, signal);
}

const portSettings = (config: Settings): SessionSettings => ({
  perProject: config.pgSessions,
  total: config.pgSessionsTotal,
  waitMs: config.waitMs,
  idleMs: config.pgIdleMs,
  idleTransactionMs: config.pgIdleTransactionMs,
  transactionMs: config.pgTransactionMs,
});
