/** Logins of the service as a project's own role, for work that only the owner of the project's objects may do. */
import { pinnedOn, PLANNER } from './connections/session-settings.js';
import { type LoginOptions, startupOptions } from '../pg/index.js';
import type { Placement } from './placement.js';
import type { PostgresServer } from './postgres-server.js';

/** The credentials of a project's roles. */
export interface LoginSource {
  password(role: string): string;
  serverOf(placement: Placement): Pick<PostgresServer, 'address' | 'hasTransactionTimeout'>;
}

/** These logins do long work, and some wait for another session meanwhile. */
const UNLIMITED = { default_transaction_read_only: 'off', lock_timeout: '0', idle_in_transaction_session_timeout: '0' };

/**
 * @param settings of the session, besides the pinned ones; they replace what the project has set for the role
 * @param name the application_name
 * @throws EngineError database_unavailable
 */
export async function roleLogin(
  logins: LoginSource,
  placement: Placement,
  role: string,
  settings: Readonly<Record<string, string>>,
  name = 'cdp service',
): Promise<LoginOptions> {
  const server = logins.serverOf(placement);
  return {
    ...server.address,
    database: placement.database,
    user: role,
    password: logins.password(role),
    application_name: name,
    options: startupOptions({ ...(await pinnedOn(server)), ...PLANNER, ...UNLIMITED, ...settings }),
  };
}
