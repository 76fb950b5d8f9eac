/** Whether a project can move to a server, and all that is in the way. Changes nothing. */
import { EngineError } from '../../contract/errors.js';
import { sql } from '../../pg/index.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { serverName } from '../../contract/servers.js';
import type { Placement } from '../../tenancy/placement.js';
import { withServiceSession } from '../../tenancy/service-pool.js';
import { addedServer, type ServerRow } from '../../tenancy/server-rows.js';
import { serviceWork } from '../../tenancy/service-work.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';
import { placementOn, serverNamed } from '../choose-server.js';
import type { ProjectParts } from '../project-parts.js';

export interface MovePlan {
  readonly project: ProjectRow;
  readonly to: ServerRow;
  /** Of the project on disk; null: unknown. */
  readonly bytes: number | null;
  /** In words; empty: it can move. */
  readonly obstacles: readonly string[];
}

/** @throws EngineError not_found, database_unavailable if one of the servers does not answer */
export async function planMove(parts: ProjectParts, project: ProjectRow, server: string): Promise<MovePlan> {
  const to = await serverNamed(parts.rows, server);
  const { placement } = project;
  const source = parts.servers.tenancyOf(placement);
  const target = parts.servers.tenancyOf({ server: to.name, added: addedServer(to) });
  const obstacles = [
    ...(['active', 'inactive'].includes(project.status) ? [] : [`it is ${project.status}`]),
    ...(serverName(placement) === to.name ? [`it lives on ${to.name} already`] : []),
    ...(to.status === 'active' ? [] : [`the server ${to.name} is ${to.status}`]),
    ...([placement.added?.engine, to.engine].includes('citus') ? ['projects on Citus do not move'] : []),
    ...((await placementOn(to, parts)) === null ? [`the projects on ${to.name} have as many bytes as they may`] : []),
    ...(await differences(parts, project, source, target)),
  ];
  return { project, to, bytes: await source.sizeOf(project), obstacles };
}

/** @throws EngineError invalid_request that names them */
export function requireNoObstacles({ project, to, obstacles }: MovePlan): void {
  if (obstacles.length === 0) return;
  throw new EngineError(
    'invalid_request',
    `The project "${project.name}" cannot move to ${to.name}: ${obstacles.join('; ')}`,
  );
}

/** What the project has, and the target does not offer. */
async function differences(
  { databases }: ProjectParts,
  { placement }: ProjectRow,
  source: Tenancy,
  target: Tenancy,
): Promise<string[]> {
  const [from, to] = [await source.major(), await target.major()];
  const { schemas, prepared } = await contentsOf(source, placement);
  const offered = await target.extensions();
  const missing = (await serviceWork(() => databases.extensionsOf(source, placement))).filter(
    (name) => !offered.includes(name),
  );
  const mayOwn = await target.mayOwnSchemas();
  return [
    ...(to < from ? [`it lives on Postgres ${from}, and the target is ${to}: it must be the same or a later one`] : []),
    ...(missing.length > 0 ? [`the target does not have the extensions ${missing.join(', ')}`] : []),
    ...(schemas.length > 0 && !mayOwn
      ? [`it has schemas of its own (${schemas.join(', ')}), which no project may have there`]
      : []),
    ...(prepared > 0 ? [`it has ${prepared} prepared transactions: commit or roll them back`] : []),
  ];
}

function contentsOf(tenancy: Tenancy, placement: Placement): Promise<{ schemas: string[]; prepared: number }> {
  const server = tenancy.serverOf(placement);
  const { database, schema, writer } = placement;
  return serviceWork(() =>
    withServer(server, () =>
      withServiceSession(server.address, database, async (session) => {
        const schemas = await session.query(
          sql`SELECT nspname FROM pg_namespace WHERE nspowner = ${writer}::regrole AND nspname <> ${schema} ORDER BY 1`,
        );
        const [[prepared] = []] = await session.query(
          sql`SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`,
        );
        return { schemas: schemas.map(([name]) => name ?? ''), prepared: Number(prepared) };
      }),
    ),
  );
}
