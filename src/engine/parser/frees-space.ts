/**
 * Recognizes statements that free disk space: a project over its disk quota may run only these and reads. If a
 * statement is missing here, it is refused and does no harm.
 */
import type { AlterTableStmt, Node, WithClause } from 'libpg-query';

/**
 * `drop`: runs no code of the project. `delete`: may run a trigger, or a function in a condition. `rewrite`: removes
 * dead rows from tables and indexes; Postgres allows it READ ONLY, so that no function of an index can write.
 */
export type FreesSpace = 'drop' | 'delete' | 'rewrite';

const DROPPING: ReadonlySet<string | undefined> = new Set(['AT_DropColumn', 'AT_DropConstraint']);

/** @returns null for a statement that may only read */
export function freesSpace(statement: Node): FreesSpace | null {
  if ('DropStmt' in statement || 'DropOwnedStmt' in statement) return 'drop';
  if ('VacuumStmt' in statement || 'ReindexStmt' in statement || 'ClusterStmt' in statement) return 'rewrite';
  if ('AlterTableStmt' in statement) return onlyDrops(statement.AlterTableStmt) ? 'drop' : null;
  if ('TruncateStmt' in statement) return 'delete';
  if ('DeleteStmt' in statement)
    return kindsIn(statement.DeleteStmt.withClause).every(readsOrDeletes) ? 'delete' : null;
  if ('SelectStmt' in statement) {
    const { withClause, intoClause } = statement.SelectStmt;
    const kinds = kindsIn(withClause);
    return intoClause === undefined && kinds.includes('DeleteStmt') && kinds.every(readsOrDeletes) ? 'delete' : null;
  }
  return null;
}

function onlyDrops({ cmds = [] }: AlterTableStmt): boolean {
  return cmds.length > 0 && cmds.every((cmd) => 'AlterTableCmd' in cmd && DROPPING.has(cmd.AlterTableCmd.subtype));
}

/**
 * The kinds of the queries of a WITH clause. Postgres allows those that write only at the top level (Postgres manual,
 * Data-Modifying Statements in WITH).
 */
const kindsIn = (clause: WithClause | undefined): string[] =>
  (clause?.ctes ?? []).map((cte) =>
    'CommonTableExpr' in cte ? (Object.keys(cte.CommonTableExpr.ctequery ?? {})[0] ?? '') : '',
  );

/** For a query of a WITH clause: it stores nothing. */
const readsOrDeletes = (kind: string): boolean => kind === 'SelectStmt' || kind === 'DeleteStmt';
