/** The services that operations on projects need. */
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectDatabases } from '../../tenancy/project-databases.js';
import type { Servers } from '../../tenancy/servers.js';
import type { Log } from '../../log.js';
import type { Audit } from '../audit/audit.js';

export interface ProjectParts {
  readonly control: ControlDatabase;
  readonly servers: Servers;
  readonly databases: ProjectDatabases;
  readonly audit: Audit;
  readonly log: Log;
}
