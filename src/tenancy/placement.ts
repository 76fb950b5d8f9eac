/** Where a project lives. */
import type { ServerEngine } from '../contract/servers.js';

export interface Placement {
  /** The name of a server by address, or the id of the folder that the project's own server is in. */
  readonly server: string;
  /** How to reach that server; null: the installation began with it. */
  readonly added: AddedServer | null;
  /** The project's own database. */
  readonly database: string;
  /** The project's schema in it, owned by the service. */
  readonly schema: string;
  /** Login role that owns what the project makes. */
  readonly writer: string;
  /** Login role that may only read. */
  readonly reader: string;
  /** The writer may make more schemas. */
  readonly ownSchemas: boolean;
}

/** A server that the operator has added to the installation. */
export interface AddedServer {
  /** Where its URL is: `env:NAME` or `file:PATH`. */
  readonly urlReference: string;
  /** When it was added, in milliseconds: another one may get the name of one that was removed. */
  readonly addedAt: number;
  readonly engine: ServerEngine;
  /** Connections to its projects' databases that an instance may open; null: as many as to any server. */
  readonly maxConnections: number | null;
}

/** Its tables may be distributed over the workers of a cluster. */
export const isOnCitus = ({ added }: Pick<Placement, 'added'>): boolean => added?.engine === 'citus';

/**
 * A setting of sessions that change several tables at once: Citus refuses to do that with a distributed table and a
 * reference table that it refers to, unless it takes one shard after another. Other servers take it for the setting of
 * an extension that is not there.
 */
export const SHARD_BY_SHARD = { 'citus.multi_shard_modify_mode': 'sequential' };

/** The role of a backup: a crash leaves one that the next backup, or the end of the project, clears away. */
export const dumpRole = ({ writer }: Pick<Placement, 'writer'>): string => `b_${writer.slice(2)}`;
