/**
 * All Postgres servers of an installation: the default server, and those that the operator has added. A project's
 * placement names its server.
 */
import { CitusTenancy } from './citus-tenancy.js';
import { unavailable } from './engine-error.js';
import type { AddedServer, Placement } from './placement.js';
import { Replicas } from './replicas.js';
import { SharedTenancy } from './shared-tenancy.js';
import type { Server, Tenancy } from './tenancy.js';
import type { TenancyParts } from './tenancy-by-address.js';
import { hasOtherUrl, urlAt } from './server-url.js';

type ServerRef = Pick<Placement, 'server' | 'added'>;

interface Known {
  readonly tenancy: Tenancy;
  /** The URL behind its reference, with the password. */
  readonly url: string;
  /** Since the last refresh, whose list may have been read before the server was added. */
  isNew: boolean;
}

export class Servers {
  readonly replicas = new Replicas();
  /** By name, time and reference of the URL: requests may have read the row before or after a change. */
  private readonly added = new Map<string, Known>();

  /** @param defaultTenancy of the default server */
  constructor(
    readonly defaultTenancy: Tenancy,
    private readonly parts: TenancyParts,
  ) {}

  /** The number of projects' servers that run now. */
  get running(): number {
    return this.defaultTenancy.running + this.added.size;
  }

  /** @throws EngineError database_unavailable if this instance does not have the server's URL */
  tenancyOf({ server, added }: ServerRef): Tenancy {
    if (added === null) return this.defaultTenancy;
    const key = keyOf(server, added);
    const known = this.added.get(key);
    if (known !== undefined) return known.tenancy;
    const Kind = added.engine === 'citus' ? CitusTenancy : SharedTenancy;
    const { url, address } = urlOf(server, added.urlReference);
    const tenancy = new Kind(address, this.parts, server, added);
    this.added.set(key, { tenancy, url, isNew: true });
    return tenancy;
  }

  /**
   * Closes those that have been removed or changed, and those whose file now contains another URL.
   */
  retain(places: readonly ServerRef[]): void {
    const wanted = new Map(
      places.flatMap(({ server, added }) => (added ? [[keyOf(server, added), added] as const] : [])),
    );
    for (const [key, known] of this.added) {
      const added = wanted.get(key);
      if (added === undefined ? !known.isNew : hasOtherUrl(known.url, added.urlReference)) {
        this.added.delete(key);
        void known.tenancy.close();
      } else {
        known.isNew = false;
      }
    }
  }

  /** @throws EngineError database_unavailable */
  serverOf(place: ServerRef): Server {
    return this.tenancyOf(place).serverOf(place);
  }

  /** @throws EngineError database_unavailable, at once, if the server is known not to answer */
  requireUp(place: ServerRef): void {
    // Only added servers are checked.
    const failure = place.added === null ? null : this.serverOf(place).breaker.failure;
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
