/** The streaming replicas from which this instance may read. The row of their server refers to their URLs. */
import { HealthCheck } from './health/health-check.js';
import { connectionsTo, type PostgresServer } from './postgres-server.js';
import { hasOtherUrl, urlAt } from './server-url.js';

/** Connections of the service's own role, to see and end backends. */
const REPLICA_POOL_SIZE = 2;

export interface Replica {
  /** For logs and metrics. */
  readonly name: string;
  readonly server: PostgresServer;
}

export const replicaName = (reference: string): string => `replica ${reference}`;

interface WatchedReplica extends Replica {
  /** The URL behind its reference, with the password. */
  readonly url: string;
  readonly check: HealthCheck;
}

export class Replicas {
  /** By reference; null: this instance does not have its URL. */
  private readonly byUrl = new Map<string, WatchedReplica | null>();
  private turn = 0;

  /** Returns those that answer, in turn; null: none does. */
  next(references: readonly string[]): Replica | null {
    const up = references.flatMap((reference) => {
      const replica = this.byUrl.get(reference) ?? null;
      return replica !== null && replica.server.breaker.failure === null ? [replica] : [];
    });
    return up[this.turn++ % up.length] ?? null;
  }

  /**
   * Watches only these from now on, at their current URLs.
   * @param onChange called for a replica that does not answer, or whose URL is missing; with null if it answers again
   */
  retain(references: readonly string[], onChange: (name: string, failure: Error | null) => void): void {
    for (const [reference, watched] of this.byUrl) {
      if (!references.includes(reference) || hasOtherUrl(watched?.url ?? null, reference)) this.forget(reference);
    }
    for (const reference of references) {
      if (!this.byUrl.has(reference)) this.byUrl.set(reference, this.watch(reference, onChange));
    }
  }

  close(): void {
    for (const reference of this.byUrl.keys()) this.forget(reference);
  }

  private watch(reference: string, onChange: (name: string, failure: Error | null) => void): WatchedReplica | null {
    const name = replicaName(reference);
    try {
      const { url, address } = urlAt(reference);
      const connections = connectionsTo({ ...address, needsPrimary: false }, REPLICA_POOL_SIZE, null);
      // The operator starts and stops replicas.
      const server = { ...connections, acquire: () => undefined, release: () => {} };
      return { name, url, server, check: new HealthCheck(name, server, (failure) => onChange(name, failure)) };
    } catch (error) {
      onChange(name, error as Error);
      return null;
    }
  }

  private forget(reference: string): void {
    const watched = this.byUrl.get(reference);
    this.byUrl.delete(reference);
    watched?.check.close();
    watched?.server.staleConnections.close();
    void watched?.server.pool.close();
  }
}
