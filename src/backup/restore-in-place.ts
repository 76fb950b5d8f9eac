/** `cdp restore --replace`: puts a restored project in the place of the one that has its name, which is kept. */
import { EngineError } from '../contract/errors.js';
import type { RestoreDone } from '../contract/wire/admin-socket.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { BackupServices } from './backup-services.js';
import { archiveAgain, restore, type RestoreOptions } from './restore.js';

/**
 * The project keeps its tokens, its quota and what else the control database has of it, as they are now: what was revoked
 * since the backup stays revoked. Nobody can use it meanwhile, so that what is acknowledged is in the one or the other.
 * @throws as {@link restore}; the project is then as it was
 */
export async function restoreInPlace(services: BackupServices, options: RestoreOptions): Promise<RestoreDone> {
  const { projectName, as, check = false, progress } = options;
  const { projects } = services;
  if (projectName === null || as !== null || options.missing)
    throw new EngineError('invalid_request', '--replace needs --project, and goes with neither --as nor --missing');
  const old = await projects.get(projectName);
  const names = new Set((await projects.list()).map(({ name }) => name));
  const [kept, temporary] = [freeName(`${projectName}-replaced`, names), freeName(`${projectName}-restored`, names)];
  const restoreBeside = () => restore(services, { ...options, as: temporary });
  if (check) {
    const done = await restoreBeside();
    progress(`${projectName}: would be kept as ${kept}, inactive`);
    return done;
  }
  const isArchived = await archivesWal(services, old);
  progress(`${projectName}: deactivated until it is restored`);
  await projects.setActive(projectName, false).catch((error: unknown) => {
    // The project is inactive, but its server does not answer: that may be why it is restored.
    if (!(error instanceof EngineError && error.code === 'database_unavailable')) throw error;
  });
  try {
    const done = await restoreBeside();
    const { id, placement } = await projects.get(temporary);
    const roles = await services.control.roles.list(old.id);
    await services.databaseSetup.createRoles(
      services.servers.tenancyOf(placement),
      placement,
      roles.map(({ name }) => name),
    );
    await projects.replace(old, id, kept);
    progress(`${projectName}: restored; the one before is kept as ${kept}, inactive: cdp project delete ${kept}`);
    const result = { ...done.projects[0], name: projectName } as RestoreDone['projects'][number];
    const restored = { name: projectName, archive: isArchived };
    return { projects: [{ ...result, not_archived: await archiveAgain(services, restored, options) }], failed: [] };
  } catch (error) {
    // The first failure tells more.
    if (old.status === 'active') await projects.setActive(projectName, true).catch(() => {});
    throw error;
  }
}

/** A name for a project that none has yet. */
function freeName(wanted: string, names: ReadonlySet<string>): string {
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `-${number}`;
    const name = `${wanted.slice(0, 63 - suffix.length)}${suffix}`;
    if (!names.has(name)) return name;
  }
}

async function archivesWal({ servers }: BackupServices, { placement }: ProjectRow): Promise<boolean> {
  const { files } = servers.tenancyOf(placement);
  return files !== null && (await files.has(placement.server)) && (await files.archivesWal(placement.server));
}
