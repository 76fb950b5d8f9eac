/**
 * Finds databases and roles on a server that belong to this installation, but to no project or move. Each gets the
 * installation's mark when it is created. They remain if the control database forgets them, for instance if a server
 * comes back after `cdp server remove --lost`.
 */
import { cleanUpStream, PUBLICATION, slotOf } from '../../moves/stream.js';
import { counted } from '../../contract/message-text.js';
import { messageOf } from '../../contract/errors.js';
import { serverName } from '../../contract/servers.js';
import { warning, ok, type Finding } from '../../contract/wire/findings.js';
import { sql } from '../../pg/index.js';
import { dumpRole, type Placement } from '../../tenancy/placement.js';
import { serverRefOf, type ServerRow } from '../../tenancy/control/server-rows.js';
import { serviceWork } from '../../tenancy/postgres-errors.js';
import { inDatabase, type Tenancy } from '../../tenancy/tenancy.js';
import type { Engine } from '../engine.js';
import { serverNamed } from '../projects/choose-server.js';

interface Leftover {
  /** `database d_…`, `role w_…`, `publication cdp_move in d_…`, `slot cdp_move_d_…` */
  readonly what: string;
  /** Why it cannot be removed now; null: it can be. */
  readonly inUse: string | null;
  readonly remove: () => Promise<void>;
}

interface ClearedServer {
  readonly server: ServerRow;
  readonly removed: readonly string[];
  /** What could not be removed, and why. */
  readonly kept: readonly { readonly what: string; readonly reason: string }[];
}

export async function examineLeftovers(engine: Engine, server: ServerRow): Promise<Finding[]> {
  const leftovers = await leftoversOn(engine, server);
  if (leftovers === null) return [];
  if (leftovers.length === 0)
    return [ok('left behind', 'every database and role of this installation belongs to a project')];
  const result = `no project has ${leftovers.map(({ what }) => what).join(', ')}`;
  return [warning('left behind', result, `Remove it: cdp server check ${server.name} --clear`)];
}

/** Removes all that can be removed. @throws EngineError not_found, database_unavailable */
export async function clearLeftovers(engine: Engine, name: string): Promise<ClearedServer> {
  const server = await serverNamed(engine.control.servers, name);
  const removed: string[] = [];
  const kept: { what: string; reason: string }[] = [];
  for (const { what, inUse, remove } of (await leftoversOn(engine, server)) ?? []) {
    try {
      if (inUse !== null) throw new Error(inUse);
      await serviceWork(remove);
      removed.push(what);
    } catch (error) {
      kept.push({ what, reason: messageOf(error) });
    }
  }
  return { server, removed, kept };
}

/** Databases come before the roles that own their objects. @returns null where a project cannot leave anything */
async function leftoversOn(engine: Engine, server: ServerRow): Promise<Leftover[] | null> {
  const place = serverRefOf(server);
  engine.servers.requireUp(place);
  const tenancy = engine.servers.tenancyOf(place);
  // In this order: a row is stored before its database is created, so a marked database that is seen has its row by
  // then.
  const marked = await tenancy.createdObjects();
  if (marked === null) return null;
  const [projects, moves] = [await engine.control.projects.list(), await engine.moves.rows.listOpen()];
  const moving = moves.flatMap(({ source, target }) => [source, target]);
  const inUseNames = new Set(
    [...projects.map(({ placement }) => placement), ...moving].flatMap((one) => [one.database, ...rolesOf(one)]),
  );
  const objects = marked
    .filter(({ name }) => !inUseNames.has(name))
    .map(({ kind, name, sessions, drop }) => ({
      what: `${kind} ${name}`,
      inUse: sessions === 0 ? null : `it is in use: ${counted(sessions, 'session')}`,
      remove: drop,
    }));
  const atRest = projects
    .map(({ placement }) => placement)
    .filter((one) => serverName(one) === server.name && !moving.some(({ database }) => database === one.database));
  const streams: Leftover[] = [];
  for (const placement of atRest) {
    const remove = () => cleanUpStream({ tenancy, placement });
    const ofPlacement = await serviceWork(() => streamOf(tenancy, placement));
    streams.push(...ofPlacement.map((what) => ({ what, inUse: null, remove })));
  }
  return [...objects, ...streams];
}

const rolesOf = ({ writer, reader }: Placement): string[] => [writer, reader, dumpRole({ writer })];

/** The remains of a move by stream in the database of a project. */
const streamOf = (tenancy: Tenancy, placement: Placement): Promise<string[]> =>
  inDatabase(tenancy, placement, async (session) => {
    const slot = slotOf(placement);
    const rows = await session.query(
      sql`SELECT format('publication %s in %s', pubname, current_database()) FROM pg_publication WHERE pubname = ${PUBLICATION}
          UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE slot_name = ${slot}`,
    );
    return rows.map(([what]) => what ?? '');
  });
