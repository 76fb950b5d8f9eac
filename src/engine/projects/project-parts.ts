/** The services that operations on projects need. */
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { MoveRows } from '../../tenancy/control/move-rows.js';
import type { ProjectDatabases } from '../../tenancy/project-databases.js';
import type { ServerRows } from '../../tenancy/control/server-rows.js';
import type { Servers } from '../../tenancy/servers.js';
import type { Audit } from '../audit/audit.js';

export interface ProjectParts {
  readonly control: ControlDatabase;
  readonly rows: ServerRows;
  readonly moves: MoveRows;
  readonly servers: Servers;
  readonly databases: ProjectDatabases;
  readonly audit: Audit;
}
