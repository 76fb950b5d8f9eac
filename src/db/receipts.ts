/**
 * Receipts: the outcome of requests by Idempotency-Key. The row that a request stores in its own transaction is its
 * receipt, so the two cannot disagree. To settle a key means to store, under its lock, that it is refused.
 */
import { DAY_MS } from '../contract/calendar.js';
import type { Receipt } from '../contract/wire/receipts.js';
import { type Fragment, sql } from '../pg/index.js';
import {
  ANY_NAMESPACE,
  deletesFrom,
  isKept,
  lockOf,
  namespaceIn,
  NOT_OF_ROLES,
  pathOf,
  streamsInto,
} from './idempotency.js';
import type { Project } from './project.js';
import type { WriteEnd } from './transaction.js';
import type { QueryRunner } from './query-runner.js';

/** Maximum number of keys settled in one transaction, which holds up to four locks for each. */
const SETTLED_AT_ONCE = 50;

interface ReceiptsOptions {
  /** The table of the batches; null: any table, and other requests too. */
  readonly tableName: string | null;
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
  { tableName, settle, days, signal }: ReceiptsOptions,
): Promise<Receipt[][]> {
  const since = new Date(Date.now() - days * DAY_MS).toISOString();
  for (let i = 0; settle && i < keys.length; i += SETTLED_AT_ONCE) {
    const some = keys.slice(i, i + SETTLED_AT_ONCE);
    await project.write({ signal, isIdempotent: true }, (db) => settleKeys(db, project.role, some, tableName));
  }
  // A row lock makes the commit wait for synchronous standbys, which may still lack the rows.
  const options = {
    connection: settle ? 'write' : 'write-unless-fenced',
    signal,
    growth: 'none',
    isIdempotent: true,
  } as const;
  const evidence = await project.write(options, (db) => lookUp(db, project.role, keys, tableName));
  return evidence.map((one) => receiptsOf(one, settle, since));
}

/** The paths of the keys that are locked, and that are refused once settled. */
const pathsOf = (role: string | null, tableName: string | null): string[] =>
  (tableName === null ? [ANY_NAMESPACE] : [tableName, deletesFrom(tableName), streamsInto(tableName)]).map(
    (namespace) => pathOf(role, namespace),
  );

/** Rows of requests: the row of a settled key has no fingerprint. Not by the response, which the reader may not see. */
const areReceipts = (role: string | null, tableName: string | null): Fragment =>
  tableName === null
    ? sql`(fingerprint IS NOT NULL AND ${role === null ? NOT_OF_ROLES : sql`true`})`
    : sql`(fingerprint IS NOT NULL AND path = ANY (${pathsOf(role, tableName)}::pg_catalog.text[]))`;

/** Where rows of keys are; a role that the project has made sees, and locks, only its own. @param keys a text array */
const rowsOf = (role: string | null, keys: Fragment): Fragment =>
  role === null ? sql`_cdp.idempotency_keys` : sql`_cdp.keys_of_role(${keys})`;

/** Skips keys that another request has locked. */
async function settleKeys(
  db: QueryRunner,
  role: string | null,
  keys: readonly string[],
  tableName: string | null,
): Promise<WriteEnd<null, void>> {
  const paths = pathsOf(role, tableName);
  const anyPath = pathOf(role, ANY_NAMESPACE);
  const locks = keys.flatMap((key, i) => [
    ...paths.map((path) => ({ i, number: lockOf(path, key), isShared: false })),
    ...(tableName === null ? [] : [{ i, number: lockOf(anyPath, key), isShared: true }]),
  ]);
  // As in `claimKey`, a separate statement after the locks looks up the rows.
  const [locked] = await db.run([
    sql`SELECT i FROM ROWS FROM (pg_catalog.unnest(${locks.map(({ i }) => i)}::pg_catalog.int4[]),
        pg_catalog.unnest(${locks.map(({ number }) => number)}::pg_catalog.int8[]),
        pg_catalog.unnest(${locks.map(({ isShared }) => isShared)}::pg_catalog.bool[])) AS lock (i, number, is_shared)
      GROUP BY i HAVING pg_catalog.bool_and(CASE WHEN is_shared THEN pg_catalog.pg_try_advisory_xact_lock_shared(number)
        ELSE pg_catalog.pg_try_advisory_xact_lock(number) END)`,
  ]);
  const free = (locked?.rows ?? []).map(([i]) => keys[Number(i)] ?? '');
  const unused = sql`FROM pg_catalog.unnest(${paths}::pg_catalog.text[]) AS free_path,
      pg_catalog.unnest(${free}::pg_catalog.text[]) AS free_key
    WHERE NOT EXISTS (SELECT FROM ${rowsOf(role, sql`ARRAY[free_key]`)} WHERE key = free_key AND ${areReceipts(role, tableName)})`;
  const settle =
    role === null
      ? sql`INSERT INTO _cdp.idempotency_keys (path, key, expires_at) SELECT free_path, free_key, NULL ${unused}
          ON CONFLICT DO NOTHING`
      : sql`SELECT _cdp.store_key_of_role(free_path, free_key, NULL, NULL, NULL, NULL, NULL) ${unused}`;
  return { response: null, beforeCommit: [settle], resultOf: () => {} };
}

/** A row of the table of keys. */
interface ReceiptRow {
  isSettled: boolean;
  /** A repeat gets its response; otherwise the key is free for another request. */
  isKept: boolean;
  namespace: string;
  receipt: Omit<StoredReceipt, 'table' | 'operation'>;
}
type StoredReceipt = Extract<Receipt, { status: 'stored' }>;

/** The facts about a key. */
interface Evidence {
  key: string;
  /** A request holds its lock. */
  isHeld: boolean;
  /** The latest first. */
  rows: ReceiptRow[];
}

async function lookUp(
  db: QueryRunner,
  role: string | null,
  keys: readonly string[],
  tableName: string | null,
): Promise<WriteEnd<null, Evidence[]>> {
  const paths = pathsOf(role, tableName);
  const locks = keys.map((key) => paths.map((path) => lockOf(path, key)));
  // If a request ends between the two statements, the second one sees its row.
  const [lockRows, stored] = await db.run([
    sql`SELECT number FROM pg_catalog.unnest(${locks.flat()}::pg_catalog.int8[]) AS number
      WHERE NOT CASE WHEN pg_catalog.pg_try_advisory_lock(number) THEN pg_catalog.pg_advisory_unlock(number) ELSE false END`,
    sql`SELECT key, path, fingerprint IS NULL, ${isKept}, row_count, transaction_id, pg_catalog.encode(body_sha256, 'hex'),
        pg_catalog.to_char(pg_catalog.timezone('UTC', created_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        stream_rows, stream_bytes, is_complete
      FROM ${rowsOf(role, sql`${keys}::pg_catalog.text[]`)} WHERE key = ANY (${keys}::pg_catalog.text[]) AND (${areReceipts(role, tableName)}
        OR (fingerprint IS NULL AND path = ANY (${[...paths, pathOf(role, ANY_NAMESPACE)]}::pg_catalog.text[])))
      ORDER BY created_at DESC ${db.isReader || role !== null ? sql`` : sql`FOR KEY SHARE`}`,
  ]);
  const heldLocks = new Set(lockRows?.rows.map(([number]) => number));
  const rows = new Map<string, ReceiptRow[]>(keys.map((key) => [key, []]));
  for (const row of stored?.rows ?? []) {
    const [key = '', path, isSettled, kept, count, transaction, sha256, at, streamRows, bytes, isComplete] = row;
    rows.get(key ?? '')?.push({
      isSettled: isSettled === 't',
      isKept: kept === 't',
      namespace: namespaceIn(role, path ?? ''),
      receipt: {
        key: key ?? '',
        status: 'stored',
        rows: numberIn(count ?? streamRows),
        stored_at: at ?? '',
        transaction_id: transaction ?? null,
        body_sha256: sha256 ?? null,
        ...(bytes == null ? {} : { bytes: Number(bytes), complete: isComplete === 't' }),
      },
    });
  }
  const evidence = keys.map((key, i) => ({
    key,
    isHeld: locks[i]?.some((lock) => heldLocks.has(lock)) ?? false,
    rows: rows.get(key) ?? [],
  }));
  return { response: null, resultOf: () => evidence };
}

const numberIn = (text: string | null | undefined): number | null => (text == null ? null : Number(text));

/** @param settle whether settling was requested: the key is settled unless a request held it */
function receiptsOf({ key, isHeld, rows }: Evidence, settle: boolean, since: string): Receipt[] {
  // If a key is used again, its running batch is the one in question.
  const receipts = rows.filter(({ isSettled, isKept }) => !isSettled && (isKept || !isHeld)).map(storedReceipt);
  if (receipts.length > 0) {
    // The first of each, since the latest comes first. Whoever may write keys can store any number under one.
    const byKind = new Map<string, StoredReceipt>();
    for (const receipt of receipts) {
      const kind = receipt.table === null ? `/${receipt.operation}` : receipt.table;
      if (!byKind.has(kind)) byKind.set(kind, receipt);
    }
    return [...byKind.values()];
  }
  const isSettled = rows.some(({ isSettled }) => isSettled);
  if (!isSettled && (isHeld || settle)) return [{ key, status: 'running' }];
  return [{ key, status: 'not_stored', settled: isSettled, since }];
}

function storedReceipt({ namespace, receipt }: ReceiptRow): StoredReceipt {
  const [word = '', rest, , stream] = namespace.split(' ');
  if (rest === undefined) return { ...receipt, table: word, operation: 'insert' };
  if (word === 'APPEND') return { ...receipt, table: rest, operation: stream === undefined ? 'insert' : 'stream' };
  if (!rest.startsWith('/')) return { ...receipt, table: rest, operation: word === 'DELETE' ? 'delete' : 'stream' };
  return { ...receipt, table: null, operation: rest === '/api/cdp/sql' ? 'sql' : 'schema' };
}
