/**
 * Receipts: the outcome of requests by Idempotency-Key. The row that a request stores in its own transaction is its
 * receipt, so the two cannot disagree. To settle a key means to store, under its lock, that it is refused.
 */
import { DAY_MS } from '../../contract/calendar.js';
import type { Receipt } from '../../contract/wire/receipts.js';
import { BEGIN, type Fragment, type Session, sql } from '../../pg/index.js';
import { ANY_PATH, deletesFrom, isKept, lockOf } from './idempotency.js';
import { typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { commit } from './commit.js';

/** Maximum number of keys settled in one transaction, which holds up to three locks for each. */
const SETTLED_AT_ONCE = 50;

interface ReceiptsOptions {
  /** The table of the batches; null: any table, and other requests too. */
  readonly table: string | null;
  /** Whether keys without a stored request are refused from now on. */
  readonly settle: boolean;
  /** How long receipts are kept. */
  readonly days: number;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  readonly signal: AbortSignal;
}

/**
 * @returns for each key, in order, the receipts of its requests, one per table; or a single receipt that says there is
 * none
 * @throws EngineError outcome_unknown, query_timeout; with `settle` also quota_exceeded
 */
export async function readReceipts(
  project: Project,
  keys: readonly string[],
  { table, settle, days, signal }: ReceiptsOptions,
): Promise<Receipt[][]> {
  if (settle) await project.shared.quotas.requireRoom(project.row);
  const use = {
    connection: settle ? 'typed' : 'typed-read',
    deadline: typedDeadline(signal),
    growth: settle ? 'grows' : 'none',
  } as const;
  const since = new Date(Date.now() - days * DAY_MS).toISOString();
  return project.use(use, async ({ session, kind }) => {
    for (let i = 0; settle && i < keys.length; i += SETTLED_AT_ONCE) {
      await settleKeys(session, keys.slice(i, i + SETTLED_AT_ONCE), table);
    }
    const found = await lookUp(session, keys, table, kind === 'typed-read');
    return found.map((evidence) => receiptsOf(evidence, settle, since));
  });
}

/** The paths that are locked, and that are refused once settled. */
const pathsOf = (table: string | null): string[] => (table === null ? [ANY_PATH] : [table, deletesFrom(table)]);

/** Rows of requests: the row of a settled key has no fingerprint. Not by the response, which the reader may not see. */
const areReceipts = (table: string | null): Fragment =>
  table === null
    ? sql`(fingerprint IS NOT NULL)`
    : sql`(fingerprint IS NOT NULL AND path = ANY (${pathsOf(table)}::pg_catalog.text[]))`;

/** Skips keys that another request has locked. */
async function settleKeys(session: Session, keys: readonly string[], table: string | null): Promise<void> {
  const paths = pathsOf(table);
  const locks = keys.flatMap((key, i) => [
    ...paths.map((path) => ({ i, number: lockOf(path, key), isShared: false })),
    ...(table === null ? [] : [{ i, number: lockOf(ANY_PATH, key), isShared: true }]),
  ]);
  // As in `claimKey`, a separate statement after the locks looks up the rows.
  const [, locked] = await session.run([
    BEGIN,
    sql`SELECT i FROM ROWS FROM (pg_catalog.unnest(${locks.map(({ i }) => i)}::pg_catalog.int4[]),
        pg_catalog.unnest(${locks.map(({ number }) => number)}::pg_catalog.int8[]),
        pg_catalog.unnest(${locks.map(({ isShared }) => isShared)}::pg_catalog.bool[])) AS lock (i, number, is_shared)
      GROUP BY i HAVING pg_catalog.bool_and(CASE WHEN is_shared THEN pg_catalog.pg_try_advisory_xact_lock_shared(number)
        ELSE pg_catalog.pg_try_advisory_xact_lock(number) END)`,
  ]);
  const free = (locked?.rows ?? []).map(([i]) => keys[Number(i)] ?? '');
  const settle = sql`INSERT INTO _cdp.idempotency_keys (path, key, expires_at)
    SELECT free_path, free_key, NULL FROM pg_catalog.unnest(${paths}::pg_catalog.text[]) AS free_path,
      pg_catalog.unnest(${free}::pg_catalog.text[]) AS free_key
    WHERE NOT EXISTS (SELECT FROM _cdp.idempotency_keys WHERE key = free_key AND ${areReceipts(table)})
    ON CONFLICT DO NOTHING`;
  await commit(session, [settle], { hasKey: true });
}

/** A row of the table of keys. */
interface Row {
  isSettled: boolean;
  /** A repeat gets its response; otherwise the key is free for another request. */
  isKept: boolean;
  path: string;
  receipt: Omit<StoredReceipt, 'table' | 'operation'>;
}
type StoredReceipt = Extract<Receipt, { status: 'stored' }>;

/** The facts about a key. */
interface Evidence {
  key: string;
  /** A request holds its lock. */
  isHeld: boolean;
  /** The latest first. */
  rows: Row[];
}

/** @param isReader the project takes no writes now, and the reader may not lock rows */
async function lookUp(
  session: Session,
  keys: readonly string[],
  table: string | null,
  isReader: boolean,
): Promise<Evidence[]> {
  const paths = pathsOf(table);
  const locks = keys.map((key) => paths.map((path) => lockOf(path, key)));
  // If a request ends between the two statements, the second one sees its row. A row lock makes the commit wait for
  // synchronous standbys, which may still lack the rows.
  const [, held, found] = await session.run([
    BEGIN,
    sql`SELECT number FROM pg_catalog.unnest(${locks.flat()}::pg_catalog.int8[]) AS number
      WHERE NOT CASE WHEN pg_catalog.pg_try_advisory_lock(number) THEN pg_catalog.pg_advisory_unlock(number) ELSE false END`,
    sql`SELECT key, path, fingerprint IS NULL, ${isKept}, row_count, transaction_id, pg_catalog.encode(body_sha256, 'hex'),
        pg_catalog.to_char(pg_catalog.timezone('UTC', created_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      FROM _cdp.idempotency_keys WHERE key = ANY (${keys}::pg_catalog.text[]) AND (${areReceipts(table)}
        OR (fingerprint IS NULL AND path = ANY (${[...paths, ANY_PATH]}::pg_catalog.text[])))
      ORDER BY created_at DESC ${isReader ? sql`` : sql`FOR KEY SHARE`}`,
  ]);
  await commit(session, [], { hasKey: true });
  const heldLocks = new Set(held?.rows.map(([number]) => number));
  const rows = new Map<string, Row[]>(keys.map((key) => [key, []]));
  for (const [key = '', path, isSettled, kept, count, transaction, sha256, at] of found?.rows ?? []) {
    rows.get(key ?? '')?.push({
      isSettled: isSettled === 't',
      isKept: kept === 't',
      path: path ?? '',
      receipt: {
        key: key ?? '',
        status: 'stored',
        rows: count == null ? null : Number(count),
        stored_at: at ?? '',
        transaction_id: transaction ?? null,
        body_sha256: sha256 ?? null,
      },
    });
  }
  return keys.map((key, i) => ({
    key,
    isHeld: locks[i]?.some((lock) => heldLocks.has(lock)) ?? false,
    rows: rows.get(key) ?? [],
  }));
}

/** @param settle whether settling was requested: the key is settled unless a request held it */
function receiptsOf({ key, isHeld, rows }: Evidence, settle: boolean, since: string): Receipt[] {
  // If a key is used again, its running batch is the one in question.
  const stored = rows.filter(({ isSettled, isKept }) => !isSettled && (isKept || !isHeld)).map(storedReceipt);
  if (stored.length > 0) {
    const isOfSame = (one: StoredReceipt) => (other: StoredReceipt) =>
      other.table === one.table && (one.table !== null || other.operation === one.operation);
    return stored.filter((receipt, i) => stored.findIndex(isOfSame(receipt)) === i);
  }
  const settled = rows.some(({ isSettled }) => isSettled);
  if (!settled && (isHeld || settle)) return [{ key, status: 'running' }];
  return [{ key, status: 'not_stored', settled, since }];
}

function storedReceipt({ path, receipt }: Row): StoredReceipt {
  const [word = '', rest] = path.split(' ');
  if (rest === undefined) return { ...receipt, table: word, operation: 'insert' };
  if (!rest.startsWith('/')) return { ...receipt, table: rest, operation: 'delete' };
  return { ...receipt, table: null, operation: rest === '/api/cdp/sql' ? 'sql' : 'schema' };
}
