/** What a backup is made of, and a restore puts back. */
import type { ControlDatabase } from '../../postgres/control.js';
import type { Credentials } from '../../postgres/credentials.js';
import type { Provisioning } from '../../postgres/projects/provisioning.js';
import type { ServerAddress } from '../../postgres/server.js';
import type { Audit } from '../audit/audit.js';
import type { Projects } from '../projects.js';

export interface Installation {
  readonly control: ControlDatabase;
  readonly projects: Projects;
  readonly provisioning: Provisioning;
  readonly audit: Audit;
  readonly address: ServerAddress;
  readonly credentials: Credentials;
}
