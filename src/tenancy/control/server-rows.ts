/** The table `cdp.servers` of the control database, and the choice of servers with room for a project. */
import { EngineError } from '../../contract/errors.js';
import type { Consistency, PlacementRequest, ServerEngine, ServerStatus, Occupancy } from '../../contract/servers.js';
import { type AuditRow, withEntry } from './audit-rows.js';
import { BEGIN, COMMIT, type Fragment, ident, join, type Row, sql, trusted } from '../../pg/index.js';
import type { AddedServer, Placement } from '../placement.js';
import type { ControlPool } from './control-pool.js';

export interface ServerRow {
  name: string;
  /** `env:NAME` or `file:PATH`; null: the default server. */
  urlReference: string | null;
  engine: ServerEngine;
  tenancy: Occupancy;
  labels: Readonly<Record<string, string>>;
  /** A server with twice the weight gets twice as many projects. */
  weight: number;
  /** null: no limit. */
  maxProjects: number | null;
  maxBytes: number | null;
  maxConnections: number | null;
  /** References to the URLs of its streaming replicas, in the form of `urlReference`. */
  replicas: readonly string[];
  /** The default for reads that do not specify one. */
  consistency: Consistency;
  status: ServerStatus;
  /** The facts from the last check. */
  facts: unknown;
  /** Projects that live there, in any status. */
  projects: number;
  createdAt: Date;
}

export type NewServer = Pick<
  ServerRow,
  'name' | 'engine' | 'tenancy' | 'labels' | 'weight' | 'maxProjects' | 'maxBytes' | 'maxConnections'
> &
  Partial<Pick<ServerRow, 'replicas' | 'consistency'>> & { readonly urlReference: string };

/** The properties of a server that can be changed. */
export type ServerChange = Partial<
  Pick<
    ServerRow,
    'status' | 'labels' | 'weight' | 'maxProjects' | 'maxBytes' | 'maxConnections' | 'replicas' | 'consistency'
  > & { readonly urlReference: string }
>;

const COLUMNS = {
  status: 'status',
  labels: 'labels',
  weight: 'weight',
  maxProjects: 'max_projects',
  maxBytes: 'max_bytes',
  maxConnections: 'max_connections',
  replicas: 'replicas',
  consistency: 'consistency',
  urlReference: 'url_reference',
} as const satisfies Record<keyof ServerChange, string>;

/** The number of projects on a row of `cdp.servers`. Those on embedded servers count for `default`. */
const PROJECTS = trusted(`(SELECT count(*) FROM cdp.projects WHERE projects.server = servers.name
  OR servers.name = 'default' AND NOT EXISTS (SELECT FROM cdp.servers other WHERE other.name = projects.server))`);

/** The number of projects that are being moved to or from there, and are not counted above. */
const MOVING = trusted(`(SELECT count(*) FROM cdp.moves WHERE ended_at IS NULL
  AND CASE WHEN state = 'switched' THEN from_server ELSE to_server END = servers.name)`);

const SERVER_JSON = trusted(`jsonb_build_object('name', name, 'urlReference', url_reference, 'engine', engine,
  'tenancy', tenancy, 'labels', labels, 'weight', weight, 'maxProjects', max_projects, 'maxBytes', max_bytes,
  'maxConnections', max_connections, 'replicas', replicas, 'consistency', consistency, 'status', status, 'facts', facts, 'projects', ${PROJECTS.text}, 'createdAt', created_at)`);

/** Whether a row of `cdp.servers` may take one more project. */
export const ACCEPTS_PROJECT = trusted(
  `(${PROJECTS.text} + ${MOVING.text} < coalesce(CASE WHEN tenancy = 'dedicated' OR engine = 'citus' THEN 1 END, max_projects, 'infinity'::float8))`,
);

const serverRow = ([, json]: Row): ServerRow => {
  const row = JSON.parse(json ?? '') as Omit<ServerRow, 'createdAt'> & { createdAt: string };
  return { ...row, createdAt: new Date(row.createdAt) };
};

const addedServer = ({ urlReference, createdAt, engine, maxConnections }: ServerRow): AddedServer | null =>
  urlReference === null ? null : { urlReference, addedAt: createdAt.getTime(), engine, maxConnections };

/** The server as a project's placement names it. */
export const serverRefOf = (row: ServerRow): Pick<Placement, 'server' | 'added'> => ({
  server: row.name,
  added: addedServer(row),
});

export class ServerRows {
  constructor(private readonly pool: ControlPool) {}

  /** The default server first, the others by name. @throws EngineError database_unavailable */
  list(): Promise<ServerRow[]> {
    return this.select(sql`ORDER BY url_reference IS NOT NULL, name`);
  }

  async get(name: string): Promise<ServerRow | null> {
    const [server] = await this.select(sql`WHERE name = ${name}`);
    return server ?? null;
  }

  /** Whether one more project may live there. */
  async acceptsProject(name: string): Promise<boolean> {
    return (await this.select(sql`WHERE name = ${name} AND ${ACCEPTS_PROJECT}`)).length === 1;
  }

  /**
   * Servers that can take a new project, the least loaded first: by projects per weight. A Citus cluster takes only a
   * project that names it.
   * @param labels that the server must have
   */
  candidates(labels: Readonly<Record<string, string>>): Promise<ServerRow[]> {
    return this
      .select(sql`WHERE status = 'active' AND engine = 'postgres' AND labels @> ${JSON.stringify(labels)}::jsonb AND ${ACCEPTS_PROJECT}
      ORDER BY (${PROJECTS} + ${MOVING}) / weight, url_reference IS NOT NULL, name`);
  }

  /** @returns false if there is a server of that name, or an embedded server in a folder of that name */
  async add(server: NewServer, entry: AuditRow | null): Promise<boolean> {
    const { name, urlReference, engine, tenancy, labels, weight, maxProjects, maxBytes, maxConnections } = server;
    const { replicas = [], consistency = 'strong' } = server;
    const rows = await this.pool.change(
      sql`INSERT INTO cdp.servers
            (name, url_reference, engine, tenancy, labels, weight, max_projects, max_bytes, max_connections, replicas, consistency)
          SELECT ${name}, ${urlReference}, ${engine}, ${tenancy}, ${JSON.stringify(labels)}::jsonb, ${weight}::real,
            ${maxProjects}::integer, ${maxBytes}::bigint, ${maxConnections}::integer,
            ${JSON.stringify(replicas)}::jsonb, ${consistency}
          WHERE NOT EXISTS (SELECT FROM cdp.projects WHERE server = ${name})
          ON CONFLICT DO NOTHING RETURNING NULL::uuid AS project_id`,
      entry,
    );
    return rows.length === 1;
  }

  /** @returns the changed server; null if there is none of that name */
  async set(name: string, change: ServerChange, entry: AuditRow | null): Promise<ServerRow | null> {
    const sets = Object.entries(change).map(([key, value]) => {
      const stored = typeof value === 'object' && value !== null ? JSON.stringify(value) : (value ?? null);
      return sql`${ident(COLUMNS[key as keyof ServerChange])} = ${stored}`;
    });
    const [row] = await this.pool.change(
      sql`UPDATE cdp.servers SET ${join(sets)} WHERE name = ${name} RETURNING NULL::uuid AS project_id, ${SERVER_JSON}`,
      entry,
    );
    return row === undefined ? null : serverRow(row);
  }

  /** Stores the facts from a check. */
  async setFacts(name: string, facts: object): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.servers SET facts = ${JSON.stringify(facts)}::jsonb WHERE name = ${name}`);
  }

  /**
   * @returns false unless an added server of that name exists and has no projects
   * @throws EngineError as {@link ControlPool.transaction}
   */
  async remove(name: string, entry: AuditRow | null): Promise<boolean> {
    const change = sql`DELETE FROM cdp.servers WHERE name = ${name} AND url_reference IS NOT NULL
      AND NOT EXISTS (SELECT FROM cdp.projects WHERE server = ${name}) AND ${MOVING} = 0 RETURNING NULL::uuid AS project_id`;
    const [, , removed] = await this.pool.transaction([
      BEGIN,
      // Waits for a project that is being placed there, so that it is counted.
      sql`SELECT FROM cdp.servers WHERE name = ${name} FOR UPDATE`,
      withEntry(change, entry),
      COMMIT,
    ]);
    return removed?.rows.length === 1;
  }

  private async select(which: Fragment): Promise<ServerRow[]> {
    const rows = await this.pool.query(sql`SELECT NULL, ${SERVER_JSON} FROM cdp.servers ${which}`);
    return rows.map(serverRow);
  }
}

/** The error if no server accepts a project. */
export function noServer({ server, labels = {} }: PlacementRequest): EngineError {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const message =
    server === undefined
      ? `No server${pairs.length > 0 ? ` with ${pairs.join(', ')}` : ''} accepts another project`
      : `The server "${server}" accepts no more projects`;
  return new EngineError('invalid_request', message, {
    hint: 'cdp server list shows which are full, draining or closed; cdp server check measures their sizes.',
  });
}
