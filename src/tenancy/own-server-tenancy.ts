/**
 * A Postgres server for each project on this machine: a folder, a postmaster, a database `project`, and the roles
 * `writer` and `reader`. The superuser logs in only to create, upgrade, repair, back up and monitor it.
 */
import { createHash } from 'node:crypto';
import type { Embedded, Template } from '../embedded/embedded.js';
import { Fleet, type FleetEvents, type LackOfRoom, type SuperuserLogin } from '../embedded/fleet.js';
import type { ControlDatabase } from './control/control.js';
import type { ProjectRow } from './control/control-rows.js';
import { refuseReachingOut } from './extensions.js';
import { OWN_SERVER_ROLES, type Placement, type ProjectRoleNames, ROLE_MARK } from './placement.js';
import type { ProjectDatabaseSetup } from './project-database-setup.js';
import { rollBackPrepared } from './prepared-transactions.js';
import { ensureRoles, grantProjectRights } from './project-rights.js';
import { databaseSize } from './server-facts.js';
import { withServiceSession } from './service-pool.js';
import type { Tenancy } from './tenancy.js';
import { connectionsTo, type PostgresServer } from './postgres-server.js';
import { type Fragment, ident, literal, type ServerAddress, type Session, sql } from '../pg/index.js';

const PLACEMENT = {
  added: null,
  database: 'project',
  schema: 'data',
  ...OWN_SERVER_ROLES,
  ownSchemas: true,
};

/** The version of the rights of a template's roles. */
const RIGHTS_VERSION = 2;

/** The database for the service's own sessions: no role of a project may connect to it. */
const SERVICE_DATABASE = 'template1';

/** The service's own connections to a server: to see and end backends, and to read sizes. */
const OWN_SERVER_POOL_SIZE = 2;

/** An idle server on which autovacuum has work keeps running for at most this many times the setting. */
const MAX_GRACE = 3;

export class OwnServerTenancy implements Tenancy {
  readonly canRestart = true;
  readonly distributesTables = false;
  readonly obstacleToStream = null;
  private readonly servers = new Map<string, PostgresServer>();

  private constructor(
    private readonly fleet: Fleet,
    private readonly databaseSetup: ProjectDatabaseSetup,
    private readonly control: ControlDatabase,
    private readonly idleStopMs: number,
  ) {}

  static async open(
    embedded: Embedded,
    databaseSetup: ProjectDatabaseSetup,
    control: ControlDatabase,
    idleStopMs: number,
    events: Omit<FleetEvents, 'beforeStop' | 'inUse'>,
  ): Promise<OwnServerTenancy> {
    refuseReachingOut(databaseSetup.extensions);
    const beforeStop = (id: string, idleMs: number) => tenancy.beforeStop(id, idleMs);
    // While it runs it may grow, and not every stop can store the new size.
    const inUse = (id: string) => void control.projects.setSize(id, null).catch(() => {});
    const fleet = await embedded.openFleet(templateOf(databaseSetup), { ...events, beforeStop, inUse });
    const tenancy = new OwnServerTenancy(fleet, databaseSetup, control, idleStopMs);
    return tenancy;
  }

  /** Servers that run now. */
  get runningServers(): number {
    return this.fleet.running;
  }

  get failures(): number {
    return this.fleet.failures;
  }

  get notStarting(): number {
    return this.fleet.notStarting;
  }

  get isReadOnly(): boolean {
    return this.fleet.isReadOnly;
  }

  lackOfRoom({ server }: Placement): LackOfRoom | null {
    return this.fleet.lackOfRoom(server);
  }

  get files(): Fleet {
    return this.fleet;
  }

  newPlacement(): Promise<Placement> {
    return Promise.resolve({ server: Fleet.newId(), ...PLACEMENT });
  }

  allowsOwnSchemas(): Promise<boolean> {
    return Promise.resolve(true);
  }

  major(): Promise<number> {
    return Promise.resolve(this.fleet.major);
  }

  isRunning({ server }: Placement): boolean {
    return this.fleet.isRunning(server);
  }

  startFailure({ server }: Placement): string | null {
    return this.fleet.startFailure(server);
  }

  serverOf({ server: id }: Placement): PostgresServer {
    const existing = this.servers.get(id);
    if (existing !== undefined) return existing;
    const { fleet } = this;
    const server: PostgresServer = {
      ...connectionsTo(addressOf(fleet.socket(id)), OWN_SERVER_POOL_SIZE, fleet),
      acquire: () => fleet.acquire(id),
      release: () => fleet.release(id),
    };
    this.servers.set(id, server);
    return server;
  }

  async create({ server }: Placement): Promise<void> {
    await this.control.projects.setSize(server, await this.fleet.create(server));
  }

  async drop({ server: id }: Placement): Promise<void> {
    await this.fleet.remove(id);
    const server = this.servers.get(id);
    this.servers.delete(id);
    server?.staleConnections.close();
    await server?.pool.close();
  }

  /** Everything of a project is in the folder of its server. */
  createdObjects(): Promise<null> {
    return Promise.resolve(null);
  }

  /** The socket is in a folder that nobody else can access, so a password would not add protection. */
  roleOptions(): Fragment {
    return NO_PASSWORD;
  }

  password(): string {
    return '';
  }

  /** There are no other projects. */
  hideOthers(): Promise<void> {
    return Promise.resolve();
  }

  previousPassword(): null {
    return null;
  }

  async markRole(session: Session, role: string): Promise<void> {
    await session.query(sql`COMMENT ON ROLE ${ident(role)} IS ${literal(ROLE_MARK)}`);
  }

  /** All projects with a server of their own have roles of the same names. */
  keepsRoleNames({ writer, reader }: ProjectRoleNames): boolean {
    return writer === PLACEMENT.writer && reader === PLACEMENT.reader;
  }

  /** The server has only the roles that every project has. */
  otherRoles(): Promise<string[]> {
    return Promise.resolve([]);
  }

  /** There are none unless an operator's own settings allow them, and a server that starts keeps those it has. */
  async rollBackPrepared(placements: readonly Placement[], olderThanMs: number): Promise<void> {
    const running = placements.filter((placement) => this.isRunning(placement));
    await Promise.all(running.map((placement) => rollBackPrepared(this, [placement], olderThanMs)));
  }

  recoverPrepared(): Promise<void> {
    return Promise.resolve();
  }

  setLogicalDecoding({ server }: Placement, on: boolean): Promise<void> {
    return this.fleet.setLogicalDecoding(server, on);
  }

  /** The service is superuser there, also of a server that does not run yet. */
  maySet(): Promise<boolean> {
    return Promise.resolve(true);
  }

  /** A stopped server is not started for this: the size from when it was stopped counts, or else that of its files. */
  async sizeOf({ placement, sizeBytes }: Pick<ProjectRow, 'placement' | 'sizeBytes'>): Promise<number | null> {
    const { server, database } = placement;
    // The size is shown as unknown.
    const ofFiles = () => this.fleet.databaseBytes(server).catch(() => null);
    const ofDatabase = this.fleet.isRunning(server)
      ? await databaseSize(this.serverOf(placement).pool, database).catch(ofFiles)
      : (sizeBytes ?? (await ofFiles()));
    if (ofDatabase === null) return null;
    return ofDatabase + (await this.fleet.feedBytes(server).catch(() => 0));
  }

  extensions(): Promise<string[]> {
    return Promise.resolve([...this.databaseSetup.extensions]);
  }

  async close(): Promise<void> {
    await Promise.all([...this.servers.values()].map(({ pool }) => pool.close()));
    for (const { staleConnections } of this.servers.values()) staleConnections.close();
    await this.fleet.close();
  }

  /**
   * Stores the size of an idle server. @returns false, for a limited time, if autovacuum runs there or has work to do
   */
  private async beforeStop(id: string, idleMs: number): Promise<boolean> {
    const address = addressOf(this.fleet.socket(id));
    const [size, isBusy] = await withServiceSession(address, PLACEMENT.database, (session) =>
      session.row(sql`SELECT pg_database_size(current_database()), ${AUTOVACUUM_HAS_WORK}`),
    );
    await this.control.projects.setSize(id, Number(size));
    return isBusy !== 't' || idleMs >= MAX_GRACE * this.idleStopMs;
  }
}

const NO_PASSWORD = sql`PASSWORD NULL`;

/** By the default thresholds of autovacuum (Postgres manual, The Autovacuum Daemon). */
const AUTOVACUUM_HAS_WORK = sql`(EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')
  OR EXISTS (SELECT FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
    WHERE s.n_mod_since_analyze > 50 + 0.1 * greatest(c.reltuples, 0)
      OR s.n_dead_tup > 50 + 0.2 * greatest(c.reltuples, 0)
      OR s.n_ins_since_vacuum > 1000 + 0.2 * greatest(c.reltuples, 0)))`;

const addressOf = (socket: SuperuserLogin): ServerAddress => ({
  ...socket,
  password: '',
  database: SERVICE_DATABASE,
  connectionTimeoutMillis: 5_000,
});

/** The source of new projects' servers: the roles, and the database with the service's own schema. */
function templateOf(databaseSetup: ProjectDatabaseSetup): Template {
  const contents = [databaseSetup.schemaVersion, RIGHTS_VERSION, ...databaseSetup.extensions].join(' ');
  const version = createHash('sha256').update(contents).digest('hex').slice(0, 12);
  return {
    version,
    async prepare(socket) {
      const address = addressOf(socket);
      const placement = { server: '', ...PLACEMENT };
      const project = ident(PLACEMENT.database);
      await withServiceSession(address, SERVICE_DATABASE, async (session) => {
        await session.query(sql`ALTER DATABASE postgres RENAME TO ${project}`);
        await session.query(sql`REVOKE ALL ON DATABASE ${project}, template1 FROM PUBLIC`);
        await ensureRoles(session, [placement.writer, placement.reader], () => sql``);
        // No session writes messages to the log. Only a superuser may change this setting.
        await session.query(sql`ALTER ROLE ALL SET log_min_messages = panic`);
      });
      await withServiceSession(address, PLACEMENT.database, async (session) => {
        await databaseSetup.prepare(session);
        await grantProjectRights(session, placement);
      });
      const server = { address, hasTransactionTimeout: () => Promise.resolve(false) };
      await databaseSetup.grantDefaults({ password: () => '', serverOf: () => server }, placement);
    },
  };
}
