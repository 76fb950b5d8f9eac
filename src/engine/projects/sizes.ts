/** How large projects are. */
import type { ProjectRow } from '../../tenancy/control-rows.js';
import type { Servers } from '../../tenancy/servers.js';

/** Bytes on disk by project; one whose database is not there is left out. */
export async function sizesOf(servers: Servers, projects: readonly ProjectRow[]): Promise<Map<string, number>> {
  // A server that does not answer has the size that was noted last.
  const sizeOf = async (project: ProjectRow) => servers.tenancyOf(project.placement).sizeOf(project);
  const found = await Promise.all(
    projects.map(async (project) => [project.id, await sizeOf(project).catch(() => project.sizeBytes)] as const),
  );
  return new Map(found.filter((entry): entry is [string, number] => entry[1] !== null));
}
