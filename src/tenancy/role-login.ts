/** Logins of the service as a project's own role, for work that only the owner of the project's objects may do. */
import { type LoginOptions, startupOptions } from '../pg/index.js';
import type { Placement } from './placement.js';
import type { Server } from './tenancy.js';

/** The credentials of a project's roles. */
export interface Logins {
  password(role: string): string;
  serverOf(placement: Placement): Pick<Server, 'address'>;
}

/**
 * @param settings of the session; they replace what the project has set for the role
 * @param name the application_name
 */
export const roleLogin = (
  logins: Logins,
  placement: Placement,
  role: string,
  settings: Readonly<Record<string, string>>,
  name = 'cdp service',
): LoginOptions => ({
  ...logins.serverOf(placement).address,
  database: placement.database,
  user: role,
  password: logins.password(role),
  application_name: name,
  options: startupOptions(settings),
});
