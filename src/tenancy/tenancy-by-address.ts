/**
 * Common to the tenancies that reach a Postgres server by address: the operator starts and stops it, and the service
 * logs in.
 */
import { randomBytes } from 'node:crypto';
import { DEFAULT_SERVER } from '../contract/servers.js';
import { type Fragment, literal, type ServerAddress, type Session, sql, trusted } from '../pg/index.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { ProjectRow } from './control/control-rows.js';
import type { Credentials } from './credentials.js';
import type { AddedServer, Placement } from './placement.js';
import type { ProjectDatabases } from './project-databases.js';
import { serverMajor } from './server-facts.js';
import { SERVICE_POOL_SIZE, withServiceSession } from './service-pool.js';
import { connectionsTo, type Server, type Tenancy } from './tenancy.js';

/** The parts that all servers of an installation share. */
export interface TenancyParts {
  readonly databases: ProjectDatabases;
  readonly credentials: Credentials;
  /** From the previous secret; null: there is none. */
  readonly previous: Credentials | null;
  /** The name of the template database for new projects. */
  readonly template: string;
}

export abstract class TenancyByAddress implements Tenancy {
  readonly fleet = null;
  readonly running = 1;
  protected readonly server: Server;
  /** The connection limit of a role, across all instances of the service; -1: unlimited. */
  protected abstract readonly connectionLimit: number;

  /** @param added null: the default server */
  constructor(
    protected readonly address: ServerAddress,
    protected readonly parts: TenancyParts,
    private readonly name: string = DEFAULT_SERVER,
    private readonly added: AddedServer | null = null,
  ) {
    this.server = { ...connectionsTo(address, SERVICE_POOL_SIZE, null), acquire: () => undefined, release: () => {} };
  }

  abstract newPlacement(): Promise<Placement>;
  abstract create(placement: Placement): Promise<void>;
  abstract drop(placement: Placement): Promise<void>;
  abstract hideOthers(session: Session): Promise<void>;
  abstract sizeOf(project: Pick<ProjectRow, 'placement'>): Promise<number | null>;
  abstract extensions(): Promise<string[]>;
  abstract mayOwnSchemas(): Promise<boolean>;

  serverOf(): Server {
    return this.server;
  }

  runs(): boolean {
    return true;
  }

  major(): Promise<number> {
    return serverMajor(this.server.pool);
  }

  roleOptions(role: string): Fragment {
    const verifier = literal(this.parts.credentials.scramVerifier(role));
    return sql`CONNECTION LIMIT ${trusted(String(this.connectionLimit))} PASSWORD ${verifier}`;
  }

  password(role: string): string {
    return this.parts.credentials.password(role);
  }

  previousPassword(role: string): string | null {
    return this.parts.previous?.password(role) ?? null;
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
    return this.server.breaker.during((signal) => withServiceSession(this.address, database, work, signal));
  }
}

export const randomName = (prefix: string): string => `${prefix}_${randomBytes(10).toString('hex')}`;

/** Locks a database name until the end of the session: only one session at a time creates or drops that database. */
export async function lockDatabase(session: Session, database: string): Promise<void> {
  await session.query(sql`SELECT pg_advisory_lock(hashtextextended(${database}, ${ADVISORY_LOCKS.database}))`);
}
