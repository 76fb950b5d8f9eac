/** Who may do what in a project, as a backup keeps it beside the dump: policies, rights, and settings of the roles. */
import { type Static, Type } from '../../contract/schema.js';
import { describes } from '../../contract/validator.js';
import type { Session } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { BadBackup } from '../tar.js';
import { policiesOf, Policy } from './policies.js';
import { Right, rightsOf } from './rights.js';
import { RoleSetting, roleSettingsOf } from './role-settings.js';

export const ProjectAccess = Type.Object({
  policies: Type.Array(Policy),
  rights: Type.Array(Right),
  settings: Type.Array(RoleSetting),
});
export type ProjectAccess = Static<typeof ProjectAccess>;

/** @param session that may read all catalogs, with the search path pg_catalog */
export async function accessOf(session: Session, placement: Placement): Promise<ProjectAccess> {
  return {
    policies: await policiesOf(session, placement),
    rights: await rightsOf(session, placement),
    settings: await roleSettingsOf(session, placement),
  };
}

const isAccess = describes(ProjectAccess);

/** @throws BadBackup */
export function parseAccess(bytes: Buffer, member: string): ProjectAccess {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    value = undefined;
  }
  if (!isAccess(value)) throw new BadBackup(`Its ${member} is not valid`);
  return value;
}
