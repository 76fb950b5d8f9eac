/**
 * Common to the tenancies that reach a Postgres server by address: the operator starts and stops it, and the service
 * logs in.
 */
import { randomBytes } from 'node:crypto';
import { DEFAULT_SERVER } from '../contract/servers.js';
import { type Fragment, literal, type ServerAddress, type Session, sql, trusted } from '../pg/index.js';
import { ADVISORY_LOCKS, takeAdvisoryLock } from './locks.js';
import type { ProjectRow } from './control/control-rows.js';
import type { Credentials } from './credentials.js';
import type { AddedServer, Placement } from './placement.js';
import type { ProjectDatabaseSetup } from './project-database-setup.js';
import { serverMajor } from './server-facts.js';
import { SERVICE_POOL_SIZE, withServiceSession } from './service-pool.js';
import { serviceWork } from './postgres-errors.js';
import type { CreatedObject, Tenancy } from './tenancy.js';
import { connectionsTo, type PostgresServer } from './postgres-server.js';

/** What it takes to create projects on servers by address: the same for all servers of an installation. */
export interface Provisioning {
  readonly databaseSetup: ProjectDatabaseSetup;
  readonly credentials: Credentials;
  /** From the previous secret; null: there is none. */
  readonly previous: Credentials | null;
  /** The name of the template database for new projects. */
  readonly template: string;
}

export abstract class TenancyByAddress implements Tenancy {
  readonly runningServers = 1;
  readonly failures = 0;
  readonly notStarting = 0;
  readonly isReadOnly = false;
  readonly files = null;
  readonly canRestart = false;
  abstract readonly distributesTables: boolean;
  abstract readonly obstacleToStream: string | null;
  protected readonly server: PostgresServer;
  /** The connection limit of a role, across all instances of the service; -1: unlimited. */
  protected abstract readonly connectionLimit: number;

  /** @param added null: the default server */
  constructor(
    protected readonly address: ServerAddress,
    protected readonly provisioning: Provisioning,
    private readonly name: string = DEFAULT_SERVER,
    private readonly added: AddedServer | null = null,
  ) {
    this.server = { ...connectionsTo(address, SERVICE_POOL_SIZE, null), acquire: () => undefined, release: () => {} };
  }

  abstract newPlacement(): Promise<Placement>;
  abstract create(placement: Placement): Promise<void>;
  abstract drop(placement: Placement): Promise<void>;
  abstract createdObjects(): Promise<CreatedObject[] | null>;
  abstract markRole(session: Session, role: string): Promise<void>;
  abstract hideOthers(session: Session): Promise<void>;
  abstract sizeOf(project: Pick<ProjectRow, 'placement'>): Promise<number | null>;
  abstract extensions(): Promise<string[]>;
  abstract allowsOwnSchemas(): Promise<boolean>;
  abstract rollBackPrepared(placements: readonly Placement[], olderThanMs: number): Promise<void>;
  abstract recoverPrepared(session: Session): Promise<void>;

  lackOfRoom(): null {
    return null;
  }

  serverOf(): PostgresServer {
    return this.server;
  }

  isRunning(): boolean {
    return true;
  }

  startFailure(): null {
    return null;
  }

  /** Here each project has roles of its own names. */
  keepsRoleNames(): boolean {
    return false;
  }

  otherRoles(names: readonly string[]): Promise<string[]> {
    return serviceWork(async () => {
      const rows = await this.server.pool.query(
        sql`SELECT quote_ident(rolname) FROM pg_roles WHERE quote_ident(rolname) = ANY (${names})`,
      );
      return rows.map(([name]) => name ?? '');
    });
  }

  setLogicalDecoding(): Promise<void> {
    return Promise.resolve();
  }

  maySet(parameter: string): Promise<boolean> {
    return this.asService(async (session) => {
      const [may] = await session.row(sql`SELECT has_parameter_privilege(${parameter}, 'SET')`);
      return may === 't';
    });
  }

  major(): Promise<number> {
    return serverMajor(this.server.pool);
  }

  roleOptions(role: string): Fragment {
    const verifier = literal(this.provisioning.credentials.scramVerifier(role));
    return sql`CONNECTION LIMIT ${trusted(String(this.connectionLimit))} PASSWORD ${verifier}`;
  }

  password(role: string): string {
    return this.provisioning.credentials.password(role);
  }

  previousPassword(role: string): string | null {
    return this.provisioning.previous?.password(role) ?? null;
  }

  async close(): Promise<void> {
    this.server.staleConnections.close();
    await this.server.pool.close();
  }

  /** A placement in the database, with random names for the roles. */
  protected placementIn(database: string, ownSchemas: boolean): Placement {
    const { name: server, added } = this;
    return { server, added, database, schema: 'data', writer: randomName('w'), reader: randomName('r'), ownSchemas };
  }

  /** Runs `work` in a session of the service's own role. */
  protected asService<T>(work: (session: Session) => Promise<T>, database = this.address.database): Promise<T> {
    return this.server.breaker.runWhileUp((signal) => withServiceSession(this.address, database, work, signal));
  }
}

export const randomName = (prefix: string): string => `${prefix}_${randomBytes(10).toString('hex')}`;

/** CREATE DATABASE and DROP DATABASE of one project hold the lock, and take seconds. */
const LOCK_MS = 60_000;

/** Locks a database name until the end of the session: only one session at a time creates or drops that database. @throws LockHeld */
export async function lockDatabase(session: Session, database: string): Promise<void> {
  const key = sql`hashtextextended(${database}, ${ADVISORY_LOCKS.database})`;
  await takeAdvisoryLock(session, key, { name: "The lock for a project's database", ms: LOCK_MS });
}
