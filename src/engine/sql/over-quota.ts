/**
 * How a request of free SQL runs while its project is over its disk quota: statements that give room back run as ever,
 * all others READ ONLY, so that no function called from them can write.
 */
import { EngineError, type PostgresDetails } from '../../contract/errors.js';
import { fixed, ROLLBACK, type Statement } from '../../postgres/sql.js';
import { READ_ONLY_SQL_TRANSACTION } from '../../postgres/sqlstate.js';
import type { Session } from '../../postgres/wire/session.js';
import type { Excess, Growth } from '../quota.js';
import type { Removal } from './removal.js';
import type { SplitStatement } from './split.js';

export const isRefusedWrite = (error: unknown): error is EngineError & { postgres: PostgresDetails } =>
  error instanceof EngineError && error.postgres?.sqlstate === READ_ONLY_SQL_TRANSACTION;

/**
 * A subtransaction that is READ ONLY cannot be made READ WRITE from inside (Postgres manual, SET TRANSACTION), and with
 * its end the transaction around it is what it was before.
 */
const FENCE: readonly Statement[] = [fixed('SAVEPOINT cdp_quota'), fixed('SET TRANSACTION READ ONLY')];
const FENCE_END: readonly Statement[] = [fixed('RELEASE SAVEPOINT cdp_quota')];

/** Before 16, READ ONLY does not keep a function from writing large objects; but what has written has a number. */
const HAS_WRITTEN = fixed(`SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL
  AND pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.<) 160000`);

/** For what Postgres runs outside a transaction alone: it goes with the session's reset. */
const FENCE_OUTSIDE: readonly Statement[] = [fixed('SET default_transaction_read_only = on')];

export class OverQuota {
  /** Nothing in the request gives room back: there is nothing to keep of it. */
  readonly readsOnly: boolean;
  /** What it may do to the size of the project. */
  readonly growth: Growth;

  /** @throws EngineError quota_exceeded where the project has used up what deletes may add on their way */
  constructor(
    private readonly excess: Excess,
    statements: readonly SplitStatement[],
  ) {
    this.readsOnly = statements.every(({ removal }) => removal === null);
    const runsCode = !this.readsOnly && statements.some(({ removal }) => removal === null || removal === 'delete');
    const dropsOnly = statements.every(({ removal }) => removal === 'drop');
    this.growth = dropsOnly ? 'none' : runsCode ? 'writes' : 'rewrites';
    if (runsCode && !excess.mayRunCode) {
      throw new EngineError('quota_exceeded', `${excess.error.message}. It has grown since by what ran with deletes`, {
        hint: 'Only reads, VACUUM and requests of nothing but drops work until it is smaller again.',
      });
    }
  }

  /** What runs before and after a statement in the transaction. */
  around({ removal }: SplitStatement): { before: readonly Statement[]; after: readonly Statement[] } {
    return isFenced(removal) ? { before: FENCE, after: FENCE_END } : { before: [], after: [] };
  }

  /** What runs before a statement outside of any transaction. */
  outside({ removal }: SplitStatement): readonly Statement[] {
    return isFenced(removal) ? FENCE_OUTSIDE : [];
  }

  /**
   * Ends the transaction of a request that only read, and resets the session.
   * @throws EngineError quota_exceeded where it wrote all the same
   */
  async endReads(session: Session): Promise<void> {
    const [written] = await session.runAndReset([HAS_WRITTEN, ROLLBACK]);
    if (written?.rows[0]?.[0] === 't') throw this.excess.error;
  }

  /** Why the fence refused a statement. */
  explained(error: unknown): unknown {
    if (!isRefusedWrite(error)) return error;
    const { message, hint } = this.excess.error;
    return new EngineError('quota_exceeded', message, {
      postgres: error.postgres,
      cause: error,
      ...(hint === undefined ? {} : { hint }),
    });
  }
}

/** Removals that need no right to write stay inside the fence: with `rewrite`, the functions of an index run. */
const isFenced = (removal: Removal | null): boolean => removal === null || removal === 'rewrite';
