/** The place of a project: server, database, schema and roles; and whether a move has fenced it. */
import type { ServerEngine } from '../contract/servers.js';

export interface Placement {
  /** The name of a server by address, or the id of the folder of an embedded server. */
  readonly server: string;
  /** How to reach an added server; null: the default server. */
  readonly added: AddedServer | null;
  readonly database: string;
  /** In that database; owned by the service. */
  readonly schema: string;
  /** Login role that owns the project's objects. */
  readonly writer: string;
  /** Login role that may only read. */
  readonly reader: string;
  /** The writer may create more schemas. */
  readonly ownSchemas: boolean;
}

/** The roles of every project. */
export const PROJECT_ROLES = ['writer', 'reader'] as const;
export type ProjectRole = (typeof PROJECT_ROLES)[number];

/** Their names on the server. */
export type ProjectRoleNames = Pick<Placement, ProjectRole>;

/** A server that the operator has added to the installation. */
export interface AddedServer {
  /** The source of its URL: `env:NAME` or `file:PATH`. */
  readonly urlReference: string;
  /** When it was added, in milliseconds: another server may reuse the name of a removed one. */
  readonly addedAt: number;
  readonly engine: ServerEngine;
  /** An instance's limit of connections to its projects' databases; null: the general limit. */
  readonly maxConnections: number | null;
}

/** The role of a backup. After a crash, the next backup, or the deletion of the project, removes it. */
export const dumpRole = ({ writer }: Pick<Placement, 'writer'>): string => `b_${writer.slice(2)}`;
