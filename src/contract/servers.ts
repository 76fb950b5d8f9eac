/** Postgres servers that projects live on. */

/** The server that the installation began with: that of `DATABASE_URL`, or the folder of embedded servers. */
export const DEFAULT_SERVER = 'default';

/** `closed` takes no new project. `draining` takes none either, and a rebalance moves its projects away. */
export const SERVER_STATUSES = ['active', 'draining', 'closed'] as const;
export type ServerStatus = (typeof SERVER_STATUSES)[number];

export const SERVER_ENGINES = ['postgres', 'citus'] as const;
export type ServerEngine = (typeof SERVER_ENGINES)[number];

/** `dedicated`: for one project alone. */
export const SERVER_TENANCIES = ['shared', 'dedicated'] as const;
export type ServerTenancy = (typeof SERVER_TENANCIES)[number];
