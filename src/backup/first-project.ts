/**
 * Finds the project that the first start of a service created, if nobody has used it. A restore of all projects
 * replaces it.
 */
import { FIRST_PROJECT, isReady } from '../contract/projects.js';
import { sql } from '../pg/index.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { inDatabase } from '../tenancy/tenancy.js';
import type { Installation } from './installation.js';

/** Whether the project has relations, in `data` or its own schemas, not counting those of extensions. */
const HAS_RELATIONS = sql`SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname NOT IN ('_cdp', 'information_schema') AND n.nspname !~ '^pg_' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e'))`;

/** @returns null if there is none, or if it has another token, a token that was used, or a relation */
export async function untouchedFirstProject({ control, projects, servers }: Installation): Promise<ProjectRow | null> {
  const project = (await projects.list()).find(({ name }) => name === FIRST_PROJECT.name);
  if (project === undefined || !isReady(project)) return null;
  const [token, ...others] = await control.tokens.list(project.id);
  const isTokenUnused = token?.name === FIRST_PROJECT.token && token.lastUsedAt === null;
  if (!isTokenUnused || others.length > 0) return null;
  const { placement } = project;
  const [hasRelations] = await inDatabase(servers.tenancyOf(placement), placement, (session) =>
    session.row(HAS_RELATIONS),
  );
  return hasRelations === 'f' ? project : null;
}
