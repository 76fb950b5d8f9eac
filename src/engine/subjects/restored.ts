/** Erases again in restored projects: before a project takes a request, whoever was erased after its backup is gone from it. */
import type { Declaration } from '../../contract/wire/subjects.js';
import { counted } from '../../contract/message-text.js';
import { withSession } from '../../pg/index.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { Placement } from '../../tenancy/placement.js';
import type { ProjectDatabaseSetup } from '../../tenancy/project-database-setup.js';
import { EXTENSIONS_SCHEMA } from '../../tenancy/extensions.js';
import { withServer } from '../../tenancy/postgres-server.js';
import { serviceWork } from '../../tenancy/postgres-errors.js';
import { roleLogin } from '../../tenancy/role-login.js';
import type { Servers } from '../../tenancy/servers.js';
import { reapply } from './ledger.js';
import type { SubjectKeys } from './subject-keys.js';

interface RestoreServices {
  readonly control: ControlDatabase;
  readonly servers: Servers;
  readonly databaseSetup: ProjectDatabaseSetup;
  readonly keys: SubjectKeys;
}

/** Whose data a backup has. */
export interface Origin {
  /** null: the backup is of an earlier version. */
  readonly lineage: string | null;
  readonly name: string;
  readonly server: string | null;
}

/**
 * @param declaration in the backup; null: none
 * @returns what was done, and what could not be, in words
 * @throws EngineError, Error: the project must not be used
 */
export async function eraseAgain(
  { control, servers, databaseSetup, keys }: RestoreServices,
  placement: Placement,
  origin: Origin,
  declaration: Declaration | null,
): Promise<string[]> {
  const entries = await control.subjects.ledger(origin);
  if (entries.length === 0) {
    const isUnknown = declaration !== null && !(await control.subjects.knows(origin));
    return isUnknown
      ? [
          'NOT ERASED AGAIN: this installation has no ledger of the project, so people erased after the backup are back in it',
        ]
      : [];
  }
  const tenancy = servers.tenancyOf(placement);
  const searchPath = [placement.schema, ...(databaseSetup.extensions.length === 0 ? [] : [EXTENSIONS_SCHEMA])];
  const done = await withServer(servers.serverOf(placement), async () => {
    await serviceWork(() => databaseSetup.upgrade(tenancy, placement));
    const settings = { search_path: searchPath.join(', '), statement_timeout: '0' };
    return withSession(await roleLogin(tenancy, placement, placement.writer, settings), async (session) =>
      reapply(session, placement, entries, await keys.ledgerKeys(), declaration),
    );
  });
  return [
    ...(done.erasures === 0
      ? []
      : [
          `${counted(done.erasures, 'erasure')} made after the backup applied, ${counted(done.rows, 'row')} erased again`,
        ]),
    ...done.notApplied.map((what) => `NOT ERASED AGAIN: ${what}`),
  ];
}
