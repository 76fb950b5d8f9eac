/**
 * Runs free SQL while its project is over its disk quota, or its disk is nearly full: statements that free space run as usual, all others READ
 * ONLY, so that no function they call can write.
 */
import { EngineError } from '../../contract/errors.js';
import { fixed, SQLSTATE, type Statement } from '../../pg/index.js';
import type { Growth, OverQuota } from '../../db/quota.js';
import type { QueryRunner } from '../../db/query-runner.js';
import type { FreesSpace } from '../parser/frees-space.js';
import { leadingKeyword } from '../parser/keywords.js';
import type { SplitStatement } from '../parser/splitter.js';

/**
 * A READ ONLY subtransaction cannot be made READ WRITE from inside (Postgres manual, SET TRANSACTION), and its end
 * restores the mode of the outer transaction.
 */
const READ_ONLY: readonly Statement[] = [fixed('SAVEPOINT cdp_quota'), fixed('SET TRANSACTION READ ONLY')];
const END_READ_ONLY: readonly Statement[] = [fixed('RELEASE SAVEPOINT cdp_quota')];

/**
 * EXPLAIN ANALYZE CREATE TABLE … AS creates the table even in READ ONLY mode. No EXPLAIN has an effect worth keeping.
 */
const UNDO: readonly Statement[] = [fixed('ROLLBACK TO SAVEPOINT cdp_quota')];

/**
 * Before Postgres 16, READ ONLY does not stop a function from writing large objects; but a transaction that has written
 * has an id.
 */
const HAS_WRITTEN = fixed(`SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL
  AND pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.<) 160000`);

/** For statements that Postgres runs only outside a transaction. The reset of the session ends it. */
const READ_ONLY_OUTSIDE: readonly Statement[] = [fixed('SET default_transaction_read_only = on')];

export class QuotaGuard {
  /** Nothing in the request frees space, so there is nothing to commit. */
  readonly freesNothing: boolean;
  readonly growth: Growth;

  /** @throws EngineError quota_exceeded, disk_full if the project has grown further because code ran with deletes */
  constructor(
    private readonly overQuota: OverQuota,
    statements: readonly SplitStatement[],
  ) {
    this.freesNothing = statements.every(({ frees }) => frees === null);
    const runsCode = !this.freesNothing && statements.some(({ frees }) => frees === null || frees === 'delete');
    const dropsOnly = statements.every(({ frees }) => frees === 'drop');
    this.growth = dropsOnly ? 'none' : runsCode ? 'frees' : 'rewrites';
    if (runsCode && overQuota.errorForCode !== null) throw overQuota.errorForCode;
  }

  /** Statements to run before and after a statement in the transaction. */
  around({ frees, text }: SplitStatement): { before: readonly Statement[]; after: readonly Statement[] } {
    if (!isGuarded(frees)) return { before: [], after: [] };
    return { before: READ_ONLY, after: leadingKeyword(text) === 'EXPLAIN' ? UNDO : END_READ_ONLY };
  }

  /** Statements to run before a statement outside a transaction. */
  outside({ frees }: SplitStatement): readonly Statement[] {
    return isGuarded(frees) ? READ_ONLY_OUTSIDE : [];
  }

  /**
   * Checks a request that only read, before its transaction is rolled back.
   * @throws EngineError quota_exceeded if it wrote anyway, or has a key: a commit, which stores the response, would also
   * run the query of a cursor WITH HOLD, outside of READ ONLY
   */
  async checkNothingWritten(db: QueryRunner, hasKey: boolean): Promise<void> {
    const [hasWritten] = await db.query(HAS_WRITTEN);
    const { error } = this.overQuota;
    if (hasWritten?.[0] === 't') throw error;
    if (!hasKey) return;
    const hint = 'Send a request that only reads without an Idempotency-Key.';
    throw new EngineError(error.code, error.message, { ...error, hint });
  }

  /** The refusal of a statement that failed because it tried to write. */
  asRefusal(error: unknown): unknown {
    if (!(error instanceof EngineError) || error.postgres?.sqlstate !== SQLSTATE.READ_ONLY_SQL_TRANSACTION)
      return error;
    const { code, message, ...options } = this.overQuota.error;
    return new EngineError(code, message, { ...options, postgres: error.postgres, cause: error });
  }
}

/** A `rewrite` frees space in READ ONLY mode, too; it stays so because it runs functions of indexes. */
const isGuarded = (frees: FreesSpace | null): boolean => frees === null || frees === 'rewrite';
