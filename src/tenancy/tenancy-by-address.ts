/**
 * What the tenancies share that find a Postgres server by its address: the operator starts and stops it, and the
 * service logs in.
 */
import { randomBytes } from 'node:crypto';
import { DEFAULT_SERVER } from '../contract/servers.js';
import { type Fragment, literal, type ServerAddress, type Session, sql, trusted } from '../pg/index.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { ProjectRow } from './control-rows.js';
import type { Credentials } from './credentials.js';
import type { AddedServer, Placement } from './placement.js';
import type { ProjectDatabases } from './project-databases.js';
import { serverMajor } from './server-facts.js';
import { withServiceSession } from './service-pool.js';
import { connectionsTo, type Server, type Tenancy } from './tenancy.js';

/** Connections of the service's own role, apart from those to the control database: the watchdog's, and for sizes. */
const POOL_SIZE = 6;

/** What all servers of an installation have in common. */
export interface TenancyParts {
  readonly databases: ProjectDatabases;
  readonly credentials: Credentials;
  /** Of the secret that is being replaced; null: none is. */
  readonly previous: Credentials | null;
  /** The name of the database that new ones are cloned from. */
  readonly template: string;
}

export abstract class TenancyByAddress implements Tenancy {
  readonly running = 1;
  protected readonly server: Server;
  /** Connections that one role may hold, over all instances of the service together; -1: any number. */
  protected abstract readonly connectionLimit: number;

  /** @param added null: the installation began with this server */
  constructor(
    protected readonly address: ServerAddress,
    protected readonly parts: TenancyParts,
    private readonly name: string = DEFAULT_SERVER,
    private readonly added: AddedServer | null = null,
  ) {
    this.server = { ...connectionsTo(address, POOL_SIZE, null), acquire: () => undefined, release: () => {} };
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

  /** Roles with random names. */
  protected placementIn(database: string, ownSchemas: boolean): Placement {
    const { name: server, added } = this;
    return { server, added, database, schema: 'data', writer: randomName('w'), reader: randomName('r'), ownSchemas };
  }

  /** Runs `work` in a session of the service's own role. */
  protected asService<T>(work: (session: Session) => Promise<T>, database = this.address.database): Promise<T> {
    return this.server.breaker.during((away) => withServiceSession(this.address, database, work, away));
  }
}

export const randomName = (prefix: string): string => `${prefix}_${randomBytes(10).toString('hex')}`;

/** One at a time makes or drops it, until the end of the session. */
export async function lockDatabase(session: Session, database: string): Promise<void> {
  await session.query(sql`SELECT pg_advisory_lock(hashtextextended(${database}, ${ADVISORY_LOCKS.database}))`);
}
