/**
 * Classifies statements in a reader's session, which has to stay READ ONLY. Its transactions begin READ ONLY, and
 * Postgres itself refuses writes in them. So only statements matter that could begin a READ WRITE transaction, or
 * change the mode of one before its first query (Postgres manual, SET TRANSACTION).
 */
import type { ExplainStmt, Node, SelectStmt, TransactionStmt, VariableSetStmt } from 'libpg-query';

/** `ends`: another transaction may begin after it. */
export type ReaderEffect = 'reads' | 'ends' | 'refused';

/** Everything else is refused: DO and CALL can commit, and VACUUM and the like commit by themselves. */
const HARMLESS: ReadonlySet<string> = new Set([
  'SelectStmt',
  'VariableShowStmt',
  'PrepareStmt',
  'ExecuteStmt',
  'DeallocateStmt',
  'DeclareCursorStmt',
  'FetchStmt',
  'ClosePortalStmt',
  'ConstraintsSetStmt',
  'ListenStmt',
  'UnlistenStmt',
  'NotifyStmt',
  'LockStmt',
  // Postgres itself refuses these, with the best message.
  'InsertStmt',
  'UpdateStmt',
  'DeleteStmt',
  'MergeStmt',
  'TruncateStmt',
  'CreateStmt',
  'CreateTableAsStmt',
  'ViewStmt',
  'CreateFunctionStmt',
  'GrantStmt',
  'CommentStmt',
]);

const ENDING: ReadonlySet<string | undefined> = new Set(['TRANS_STMT_COMMIT', 'TRANS_STMT_ROLLBACK']);
const WITHIN: ReadonlySet<string | undefined> = new Set([
  'TRANS_STMT_SAVEPOINT',
  'TRANS_STMT_RELEASE',
  'TRANS_STMT_ROLLBACK_TO',
]);

export function readerEffect(statement: Node): ReaderEffect {
  if ('TransactionStmt' in statement) return ofTransaction(statement.TransactionStmt);
  if ('VariableSetStmt' in statement) return keepsMode(statement.VariableSetStmt) ? 'reads' : 'refused';
  if ('ExplainStmt' in statement) return mayCreate(statement.ExplainStmt) ? 'refused' : 'reads';
  // DISCARD ALL runs only outside a transaction block, and commits.
  if ('DiscardStmt' in statement) return 'ends';
  if ('CopyStmt' in statement) {
    const { is_from: isFrom, is_program: isProgram, filename } = statement.CopyStmt;
    return isFrom !== true && isProgram !== true && filename === undefined ? 'reads' : 'refused';
  }
  return Object.keys(statement).every((kind) => HARMLESS.has(kind)) ? 'reads' : 'refused';
}

function ofTransaction({ kind, options = [] }: TransactionStmt): ReaderEffect {
  if (ENDING.has(kind)) return 'ends';
  if (WITHIN.has(kind)) return 'reads';
  const begins = kind === 'TRANS_STMT_BEGIN' || kind === 'TRANS_STMT_START';
  return begins && !options.some(isReadWrite) ? 'reads' : 'refused';
}

/**
 * EXPLAIN ANALYZE of CREATE TABLE AS, CREATE MATERIALIZED VIEW or SELECT INTO creates the relation, and Postgres does
 * not refuse that in a READ ONLY transaction. EXECUTE runs such a statement too, if it was prepared by a Parse message.
 */
function mayCreate({ query = {} as Node }: ExplainStmt): boolean {
  if ('SelectStmt' in query) return hasInto(query.SelectStmt);
  return 'CreateTableAsStmt' in query || 'ExecuteStmt' in query;
}

/** In a UNION and the like, the first query has the INTO. */
const hasInto = ({ intoClause, larg }: SelectStmt): boolean =>
  intoClause !== undefined || (larg !== undefined && hasInto(larg));

const MODES: ReadonlySet<string> = new Set(['transaction_read_only', 'default_transaction_read_only']);
const ON: ReadonlySet<string> = new Set(['on', 'true', 'yes', '1']);

function keepsMode({ name = '', kind, args = [] }: VariableSetStmt): boolean {
  // A snapshot exported by another session brings its data, not its mode.
  if (kind === 'VAR_SET_MULTI') return name === 'TRANSACTION SNAPSHOT' || !args.some(isReadWrite);
  // The default comes from the start of the connection, which is READ ONLY. Names of settings are case-insensitive.
  if (!MODES.has(name.toLowerCase()) || kind === 'VAR_RESET' || kind === 'VAR_SET_DEFAULT') return true;
  const [value] = args;
  const text = value !== undefined && 'A_Const' in value ? value.A_Const.sval?.sval : undefined;
  return args.length === 1 && ON.has((text ?? '').toLowerCase());
}

/** The option of BEGIN, SET TRANSACTION and SET SESSION CHARACTERISTICS: 1 is READ ONLY. */
function isReadWrite(option: Node): boolean {
  if (!('DefElem' in option)) return true;
  const { defname, arg } = option.DefElem;
  if (defname !== 'transaction_read_only') return false;
  return arg === undefined || !('A_Const' in arg) || arg.A_Const.ival?.ival !== 1;
}
