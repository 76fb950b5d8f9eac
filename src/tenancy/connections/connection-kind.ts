/** The kinds of connections to a project. */

/**
 * What a connection is for. It never changes its kind: one that ran free SQL never serves inserts or schema
 * calls (contract section 7).
 */
export const CONNECTION_KINDS = ['typed', 'typed-read', 'sql-write', 'sql-read'] as const;
export type ConnectionKind = (typeof CONNECTION_KINDS)[number];

export const isReader = (kind: ConnectionKind): boolean => kind === 'typed-read' || kind === 'sql-read';

/** Whether it runs free SQL, which may leave anything in the session. */
export const runsFreeSql = (kind: ConnectionKind): boolean => kind === 'sql-write' || kind === 'sql-read';
