/**
 * All Postgres servers of an installation: the one that it began with, and those that the operator has added. A project's
 * placement says which one is its own.
 */
import { readFileSync, statSync } from 'node:fs';
import { CitusServer } from './citus-server.js';
import { unavailable } from './engine-error.js';
import type { Placement } from './placement.js';
import { Replicas } from './replicas.js';
import { type Common, SharedServer } from './shared-server.js';
import type { Server, Tenancy } from './tenancy.js';
import { addressOfUrl, type ServerAddress } from '../pg/index.js';

type Place = Pick<Placement, 'server' | 'added'>;

interface Known {
  readonly addedAt: number;
  readonly tenancy: Tenancy;
}

export class Servers {
  readonly replicas = new Replicas(addressAt);
  private readonly added = new Map<string, Known>();

  /** @param home the server that the installation began with */
  constructor(
    readonly home: Tenancy,
    private readonly common: Common,
  ) {}

  /** Servers of projects that run now. */
  get running(): number {
    return this.home.running + this.added.size;
  }

  /** @throws EngineError database_unavailable if this instance does not have the server's URL */
  tenancyOf({ server, added }: Place): Tenancy {
    if (added === null) return this.home;
    const { addedAt } = added;
    const known = this.added.get(server);
    if (known?.addedAt === addedAt) return known.tenancy;
    const Kind = added.engine === 'citus' ? CitusServer : SharedServer;
    const tenancy = new Kind(addressOf(server, added.urlReference), this.common, server, added);
    this.added.set(server, { addedAt, tenancy });
    // It was removed, and another one has its name now.
    void known?.tenancy.close();
    return tenancy;
  }

  /** @throws EngineError database_unavailable */
  serverOf(place: Place): Server {
    return this.tenancyOf(place).serverOf(place);
  }

  /** @throws EngineError database_unavailable, at once, while it is known that the server does not answer */
  requireUp(place: Place): void {
    // Only those that were added are checked.
    const away = place.added === null ? null : this.serverOf(place).breaker.away;
    if (away !== null) throw unavailable(away, `server ${place.server}`);
  }

  /** The server was removed from the installation. */
  forget(name: string): void {
    void this.added.get(name)?.tenancy.close();
    this.added.delete(name);
  }

  async close(): Promise<void> {
    this.replicas.close();
    await Promise.all(
      [this.home, ...Array.from(this.added.values(), ({ tenancy }) => tenancy)].map((one) => one.close()),
    );
  }
}

/** @throws EngineError database_unavailable; its cause says what is wrong */
function addressOf(server: string, urlReference: string): ServerAddress {
  try {
    return addressAt(urlReference);
  } catch (error) {
    throw unavailable(new Error(`The server ${server} cannot be reached: ${(error as Error).message}`));
  }
}

/**
 * The address that this instance has for a server.
 * @param urlReference `env:NAME` or `file:PATH`
 * @throws Error that says what is missing or wrong, never the URL
 */
export function addressAt(urlReference: string): ServerAddress {
  const at = urlReference.indexOf(':') + 1;
  const place = urlReference.slice(at);
  const url = urlReference.startsWith('env:') ? process.env[place] : urlIn(place);
  if (url === undefined) throw new Error(`the environment of the service has no variable ${place}`);
  if (url === '') throw new Error(`${urlReference} is empty`);
  return addressOfUrl(url, urlReference);
}

/** More is no URL. */
const MOST_BYTES = 64 * 1024;

/** @throws Error for anything but a small file: the name comes from a request */
function urlIn(file: string): string {
  const stats = statSync(file);
  if (!stats.isFile() || stats.size > MOST_BYTES) throw new Error(`${file} is not a file with a URL`);
  return readFileSync(file, 'utf8').trim();
}
