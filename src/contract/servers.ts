/** Postgres servers that projects live on. */

/** The server that the installation began with: that of `DATABASE_URL`, or the folder of embedded servers. */
export const DEFAULT_SERVER = 'default';

/** The name of the server that a project is on, as operators know it. @param added null: it is on that server */
export const serverName = ({ server, added }: { server: string; added: object | null }): string =>
  added === null ? DEFAULT_SERVER : server;

/** `closed` takes no new project. `draining` takes none either, and a rebalance moves its projects away. */
export const SERVER_STATUSES = ['active', 'draining', 'closed'] as const;
export type ServerStatus = (typeof SERVER_STATUSES)[number];

export const SERVER_ENGINES = ['postgres', 'citus'] as const;
export type ServerEngine = (typeof SERVER_ENGINES)[number];

/** `dedicated`: reserved for a single project. */
export const SERVER_TENANCIES = ['shared', 'dedicated'] as const;
export type ServerTenancy = (typeof SERVER_TENANCIES)[number];

/** Where reads run: `strong` on the primary alone, `bounded` on a streaming replica if there is one. */
export const CONSISTENCIES = ['strong', 'bounded'] as const;
export type Consistency = (typeof CONSISTENCIES)[number];
