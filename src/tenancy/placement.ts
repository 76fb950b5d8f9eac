/** Where a project lives. */
export interface Placement {
  /** The server: the id of its folder, or {@link SHARED} on a server by address. */
  readonly server: string;
  /** The project's own database. */
  readonly database: string;
  /** The project's schema in it, owned by the service. */
  readonly schema: string;
  /** Login role that owns what the project makes. */
  readonly writer: string;
  /** Login role that may only read. */
  readonly reader: string;
}

/** The server of `DATABASE_URL`, on which each project has a database and roles of its own. */
export const SHARED = 'default';

/** The role of a backup: a crash leaves one that the next backup, or the end of the project, clears away. */
export const dumpRole = ({ writer }: Pick<Placement, 'writer'>): string => `b_${writer.slice(2)}`;
