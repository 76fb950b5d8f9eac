/** The place of a project: server, database, schema and roles; and whether a move has fenced it. */
import type { ServerEngine } from '../contract/servers.js';
import { type Fragment, sql } from '../pg/index.js';

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

/** The roles of every project. It can make others, which log in through the service as these do. */
export const PROJECT_ROLES = ['writer', 'reader'] as const;
export type ProjectRole = (typeof PROJECT_ROLES)[number];

/** Their names on the server. */
export type ProjectRoleNames = Pick<Placement, ProjectRole>;

/** The roles of a project that has a server of its own. */
export const OWN_SERVER_ROLES: ProjectRoleNames = { writer: 'writer', reader: 'reader' };

const hasOwnServer = ({ writer }: Pick<Placement, 'writer'>): boolean => writer === OWN_SERVER_ROLES.writer;

/** The beginning of the names that roles of a project have on a shared server. */
const prefixOf = ({ writer }: Pick<Placement, 'writer'>): string => `p_${writer.slice(2)}_`;

/** The name on the server of a role that the project has made. */
export const postgresRole = (placement: Pick<Placement, 'writer'>, name: string): string =>
  hasOwnServer(placement) ? name : `${prefixOf(placement)}${name}`;

/** Whether a role of its database is one of the project, and not the service's. @param name on the server */
export const isRoleOf = (placement: ProjectRoleNames, name: string): boolean =>
  hasOwnServer(placement)
    ? !/^(cdp_service|pg_.*)$/.test(name)
    : name === placement.writer || name === placement.reader || name.startsWith(prefixOf(placement));

/** The name by which the project knows such a role. */
export const roleKnownAs = (placement: Pick<Placement, 'writer'>, postgresName: string): string =>
  hasOwnServer(placement) ? postgresName : postgresName.slice(prefixOf(placement).length);

/** Begins the path of each Idempotency-Key of such a role; the functions of migration 018 of projects expect it. */
export const keyPathsOf = (role: string): string => `ROLE ${role} `;

/** The slot from which the feed of a project with a server of its own is read. */
export const FEED_SLOT = 'cdp_feed';

/**
 * The comment of such a role on a project's own server, where its name does not tell it from one that an operator has
 * made. No role of a project can change it.
 */
export const ROLE_MARK = 'made by the project';

/**
 * The name that a project knows its role by, in SQL; null for roles that it has not made. On a shared server it needs no
 * right to a catalog.
 * @param role a name on the server, as text
 */
export const madeRole = (placement: Pick<Placement, 'writer'>, role: Fragment): Fragment =>
  hasOwnServer(placement)
    ? // Names of columns of its own: the role may be given as the column of a query around it.
      sql`(SELECT made_name FROM (SELECT rolname::text, oid FROM pg_roles) AS made (made_name, made_oid)
        WHERE made_name = ${role} AND shobj_description(made_oid, 'pg_authid') = ${ROLE_MARK})`
    : sql`CASE WHEN starts_with(${role}, ${prefixOf(placement)}) THEN substr(${role}, ${prefixOf(placement).length + 1}) END`;

/** A condition on the name of a role, as text: the project has made it. */
export const isMadeRole = (placement: Pick<Placement, 'writer'>, role: Fragment): Fragment =>
  sql`(${madeRole(placement, role)} IS NOT NULL)`;

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
