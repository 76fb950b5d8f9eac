/** Opens the engine as the settings say, on an open database: for the service and the management commands. */
import type { Logger } from 'pino';
import { CONNECTIONS_ELSEWHERE, type Database } from './database.js';
import type { Engine } from './engine/engine.js';
import type { SessionSettings } from './engine/sessions/sessions.js';
import type { Config } from './settings.js';

export async function openConfiguredEngine(config: Config, database: Database, logger: Logger): Promise<Engine> {
  const engine = await import('./engine/open-engine.js');
  const { address, embedded, connections: maxConnections, secret } = database;
  const { jwtIssuer, jwtAudience, jwtJwksUrl } = config;
  const jwt =
    jwtIssuer === null || jwtAudience === null || jwtJwksUrl === null
      ? null
      : { issuer: jwtIssuer, audience: jwtAudience, jwksUrl: new URL(jwtJwksUrl) };
  const sessions = config.pgPort === null ? null : sessionSettings(config);
  const secretPrevious = embedded === null ? config.secretPrevious : null;
  return engine.openEngine({
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
  });
}

const sessionSettings = (config: Config): SessionSettings => ({
  perProject: config.pgSessions,
  total: config.pgSessionsTotal,
  waitMs: config.waitMs,
  idleMs: config.pgIdleMs,
  idleTransactionMs: config.pgIdleTransactionMs,
  transactionMs: config.pgTransactionMs,
});
