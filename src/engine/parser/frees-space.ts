/**
 * Which statements free disk space: what a project may change while it is over its disk quota. Everything else only
 * reads then, so a statement that is missing here is rejected and does no harm.
 */
import type { AlterTableStmt, Node, WithClause } from 'libpg-query';

/**
 * `drop`: runs no code of the project. `delete`: a trigger, or a function in a condition, runs with it. `rewrite`:
 * takes dead rows out of tables and indexes; Postgres runs it READ ONLY too, and then no function of an index can
 * write.
 */
export type FreesSpace = 'drop' | 'delete' | 'rewrite';

const DROPPING: ReadonlySet<string | undefined> = new Set(['AT_DropColumn', 'AT_DropConstraint']);

/** @returns null for a statement that may only read */
export function freesSpace(statement: Node): FreesSpace | null {
  if ('DropStmt' in statement || 'DropOwnedStmt' in statement) return 'drop';
  if ('VacuumStmt' in statement || 'ReindexStmt' in statement || 'ClusterStmt' in statement) return 'rewrite';
  if ('AlterTableStmt' in statement) return onlyDrops(statement.AlterTableStmt) ? 'drop' : null;
  if ('TruncateStmt' in statement) return 'delete';
  if ('DeleteStmt' in statement) return kindsIn(statement.DeleteStmt.withClause).every(isHarmless) ? 'delete' : null;
  if ('SelectStmt' in statement) {
    const { withClause, intoClause } = statement.SelectStmt;
    const kinds = kindsIn(withClause);
    return intoClause === undefined && kinds.includes('DeleteStmt') && kinds.every(isHarmless) ? 'delete' : null;
  }
  return null;
}

function onlyDrops({ cmds = [] }: AlterTableStmt): boolean {
  return cmds.length > 0 && cmds.every((cmd) => 'AlterTableCmd' in cmd && DROPPING.has(cmd.AlterTableCmd.subtype));
}

/** The kinds of the queries of a WITH clause. Postgres takes those that write at the top level alone (manual 7.8.4). */
const kindsIn = (clause: WithClause | undefined): string[] =>
  (clause?.ctes ?? []).map((cte) =>
    'CommonTableExpr' in cte ? (Object.keys(cte.CommonTableExpr.ctequery ?? {})[0] ?? '') : '',
  );

const isHarmless = (kind: string): boolean => kind === 'SelectStmt' || kind === 'DeleteStmt';
