/** Sizes of projects on disk. */
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Servers } from '../../tenancy/servers.js';

/** Bytes on disk by project. A project whose database does not exist is left out. */
export async function sizesOf(servers: Servers, projects: readonly ProjectRow[]): Promise<Map<string, number>> {
  // If a server does not answer, the last stored size counts.
  const sizeOf = async (project: ProjectRow) => servers.tenancyOf(project.placement).sizeOf(project);
  const found = await Promise.all(
    projects.map(async (project) => [project.id, await sizeOf(project).catch(() => project.sizeBytes)] as const),
  );
  return new Map(found.filter((entry): entry is [string, number] => entry[1] !== null));
}
