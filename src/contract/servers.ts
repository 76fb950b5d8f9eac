/** Postgres servers on which projects live. */

/** The major versions of Postgres that the service is tested with, and runs as its own servers. */
export const MAJORS = { oldest: 15, newest: 18 };

/** The server of the installation: that of `DATABASE_URL`, or the folder of embedded servers. */
export const DEFAULT_SERVER = 'default';

/**
 * The operator's name for the server of a project.
 * @param added null: the project is on the default server
 */
export const serverName = ({ server, added }: { server: string; added: object | null }): string =>
  added === null ? DEFAULT_SERVER : server;

/** Whether a project is on the server of this name, see {@link serverName}. */
export const isOn =
  (name: string) =>
  ({ placement }: { placement: Parameters<typeof serverName>[0] }): boolean =>
    serverName(placement) === name;

/** Where to place a project. */
export interface PlacementRequest {
  /** The name of a server; undefined: the least loaded of those that have the labels. */
  readonly server?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/**
 * A `closed` server accepts no new projects. Neither does a `draining` one, and a rebalance moves its projects away.
 */
export const SERVER_STATUSES = ['active', 'draining', 'closed'] as const;
export type ServerStatus = (typeof SERVER_STATUSES)[number];

export const SERVER_ENGINES = ['postgres', 'citus'] as const;
export type ServerEngine = (typeof SERVER_ENGINES)[number];

type OfEngine = { readonly engine: ServerEngine };

/** Whether the service tries out a new project there. A Citus cluster is prepared by the operator for its only project. */
export const takesTrials = ({ engine }: OfEngine): boolean => engine !== 'citus';

/** Whether a rebalance may move projects to and from the server. */
export const takesRebalance = ({ engine }: OfEngine): boolean => engine !== 'citus';

/** Whether the service can read from replicas of the server. Queries of a Citus cluster go to its workers. */
export const takesReplicas = ({ engine }: OfEngine): boolean => engine !== 'citus';

/** `dedicated`: reserved for a single project. */
export const OCCUPANCIES = ['shared', 'dedicated'] as const;
export type Occupancy = (typeof OCCUPANCIES)[number];

export const defaultOccupancy = (engine: ServerEngine): Occupancy => (engine === 'citus' ? 'dedicated' : 'shared');

/** Where reads run: `strong` only on the primary, `bounded` on a streaming replica if there is one. */
export const CONSISTENCIES = ['strong', 'bounded'] as const;
export type Consistency = (typeof CONSISTENCIES)[number];
