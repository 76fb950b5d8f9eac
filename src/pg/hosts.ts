/**
 * The hosts of a cluster, one of which is the primary: which one a login tries first, and which sessions a failover
 * ends.
 */
import { ConnectionLost } from './errors.js';

export interface Host {
  readonly host: string;
  readonly port: number;
}

/** A session at one of the hosts. */
interface Destroyable {
  destroy(reason: Error): void;
}

export class Hosts {
  /** The host at which the last login succeeded. */
  private current: Host | undefined;
  private readonly sessions = new Map<Destroyable, Host>();

  constructor(readonly list: readonly Host[]) {}

  /** The hosts in the order in which a login tries them, beginning with that of the last login. */
  inTurn(): Host[] {
    const at = this.current === undefined ? 0 : this.list.indexOf(this.current);
    return [...this.list.slice(at), ...this.list.slice(0, at)];
  }

  /**
   * Call this when a login has found the primary. If the primary has changed, the sessions at the former host are
   * destroyed: that host is down or must not be written to, and queries about its backends would go to the new one.
   */
  confirm(host: Host): void {
    if (host === this.current) return;
    this.current = host;
    for (const [session, at] of this.sessions) {
      if (nameOf(at) !== nameOf(host)) session.destroy(new ConnectionLost(`The primary is now ${nameOf(host)}`));
    }
  }

  /** Call {@link closed} when the session has ended. */
  opened(session: Destroyable, { host, port }: Host): void {
    this.sessions.set(session, { host, port });
  }

  closed(session: Destroyable): void {
    this.sessions.delete(session);
  }
}

export const nameOf = ({ host, port }: Host): string => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
