/** What a backup is made of, and a restore puts back. */
import type { ControlDatabase } from '../../tenancy/control.js';
import type { ProjectDatabases } from '../../tenancy/project-databases.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import type { Audit } from '../audit/audit.js';
import type { Projects } from '../projects.js';

export interface Installation {
  readonly control: ControlDatabase;
  readonly projects: Projects;
  readonly tenancy: Tenancy;
  readonly databases: ProjectDatabases;
  readonly audit: Audit;
}
