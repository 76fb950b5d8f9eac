/**
 * All Postgres servers of an installation: the default server, and those that the operator has added. A project's
 * placement names its server.
 */
import { CitusTenancy } from './citus-tenancy.js';
import { unavailable } from './postgres-errors.js';
import type { AddedServer, Placement } from './placement.js';
import { Replicas } from './replicas.js';
import { OwnDatabaseTenancy } from './own-database-tenancy.js';
import type { Tenancy } from './tenancy.js';
import type { PostgresServer } from './postgres-server.js';
import type { Provisioning } from './tenancy-by-address.js';
import { hasOtherUrl, urlAt } from './server-url.js';

/** The server of a placement. */
type ServerRef = Pick<Placement, 'server' | 'added'>;

/** The tenancy of an added server. */
interface AddedTenancy {
  readonly tenancy: Tenancy;
  /** The URL behind its reference, with the password. */
  readonly url: string;
  /** Since the last refresh, whose list may have been read before the server was added. */
  isNew: boolean;
}

export class Servers {
  readonly replicas = new Replicas();
  /** By name, time and reference of the URL: requests may have read the row before or after a change. */
  private readonly added = new Map<string, AddedTenancy>();

  /** @param defaultTenancy of the default server */
  constructor(
    readonly defaultTenancy: Tenancy,
    private readonly provisioning: Provisioning,
  ) {}

  /** The number of projects' servers that run now. */
  get runningServers(): number {
    return this.defaultTenancy.runningServers + this.added.size;
  }

  /** How often a server that the service starts has ended unexpectedly, or did not start. */
  get failures(): number {
    return this.defaultTenancy.failures;
  }

  /** How many of these did not start when they were last needed. */
  get notStarting(): number {
    return this.defaultTenancy.notStarting;
  }

  /** @throws EngineError database_unavailable if this instance does not have the server's URL */
  tenancyOf({ server, added }: ServerRef): Tenancy {
    if (added === null) return this.defaultTenancy;
    const key = keyOf(server, added);
    const existing = this.added.get(key);
    if (existing !== undefined) return existing.tenancy;
    const Kind = added.engine === 'citus' ? CitusTenancy : OwnDatabaseTenancy;
    const { url, address } = urlOf(server, added.urlReference);
    const tenancy = new Kind(address, this.provisioning, server, added);
    this.added.set(key, { tenancy, url, isNew: true });
    return tenancy;
  }

  /**
   * Closes those that have been removed or changed, and those whose file now contains another URL.
   */
  retain(current: readonly ServerRef[]): void {
    const addedByKey = new Map(
      current.flatMap(({ server, added }) => (added ? [[keyOf(server, added), added] as const] : [])),
    );
    for (const [key, existing] of this.added) {
      const added = addedByKey.get(key);
      if (added === undefined ? !existing.isNew : hasOtherUrl(existing.url, added.urlReference)) {
        this.added.delete(key);
        void existing.tenancy.close();
      } else {
        existing.isNew = false;
      }
    }
  }

  /** @throws EngineError database_unavailable */
  serverOf(ref: ServerRef): PostgresServer {
    return this.tenancyOf(ref).serverOf(ref);
  }

  /** @throws EngineError database_unavailable, at once, if the server is known not to answer */
  requireUp(ref: ServerRef): void {
    // Only added servers are checked.
    const failure = ref.added === null ? null : this.serverOf(ref).breaker.failure;
    if (failure !== null) throw unavailable(failure);
  }

  async close(): Promise<void> {
    this.replicas.close();
    await Promise.all(
      [this.defaultTenancy, ...Array.from(this.added.values(), ({ tenancy }) => tenancy)].map((one) => one.close()),
    );
  }
}

const keyOf = (server: string, { addedAt, urlReference }: AddedServer): string =>
  `${server} ${addedAt} ${urlReference}`;

/** @throws EngineError database_unavailable, with the reason as its cause */
function urlOf(server: string, urlReference: string): ReturnType<typeof urlAt> {
  try {
    return urlAt(urlReference);
  } catch (error) {
    throw unavailable(new Error(`The server ${server} cannot be reached: ${(error as Error).message}`));
  }
}
