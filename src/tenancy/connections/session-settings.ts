/**
 * The kinds of connections to a project, and the settings with which their sessions begin, whatever the project has set
 * for its roles. Its other settings stay and apply.
 */
import { type LoginOptions, startupOptions } from '../../pg/index.js';
import type { PostgresServer } from '../postgres-server.js';

/**
 * What a connection is for: statements of the service (inserts, schema calls), or SQL of the caller, each as the writer
 * or the reader. It never changes its kind: one that ran free SQL never serves inserts or schema calls (contract C13.12).
 */
export const CONNECTION_KINDS = ['write', 'read', 'sql-write', 'sql-read'] as const;
export type ConnectionKind = (typeof CONNECTION_KINDS)[number];

/** As operators find them in pg_stat_activity. */
const APPLICATION_NAMES: Readonly<Record<ConnectionKind, string>> = {
  write: 'cdp write',
  read: 'cdp read',
  'sql-write': 'cdp sql-write',
  'sql-read': 'cdp sql-read',
};

export const isReader = (kind: ConnectionKind): boolean => kind === 'read' || kind === 'sql-read';

/** Whether it runs free SQL, which may leave anything in the session. */
export const runsFreeSql = (kind: ConnectionKind): boolean => kind === 'sql-write' || kind === 'sql-read';

/** Settings from the startup packet of a client of the Postgres port. */
export interface ClientSettings {
  readonly applicationName: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** Settings on which responses, checks or the start of a connection depend. `ALTER ROLE … SET` cannot override them. */
const PINNED = {
  // A project's role is in no group, unless an operator puts it there.
  role: 'none',
  client_encoding: 'UTF8',
  DateStyle: 'ISO,MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '1',
  bytea_output: 'hex',
  xmloption: 'content',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  row_security: 'on',
  // Names in the catalogs' text are compared.
  quote_all_identifiers: 'off',
  check_function_bodies: 'on',
  // A library that does not exist would make every login fail.
  local_preload_libraries: '',
  default_tablespace: '',
  temp_tablespaces: '',
  default_table_access_method: 'heap',
  // Otherwise an error in a statement would look like a server that fails.
  exit_on_error: 'off',
  statement_timeout: '0',
  idle_session_timeout: '0',
  // If the service dies between two statements, no locks may stay.
  idle_in_transaction_session_timeout: '90000',
  client_connection_check_interval: '1000',
  // Postgres reports a commit that no standby has confirmed as a warning.
  client_min_messages: 'warning',
  jit: 'off',
};

/**
 * The planner (Postgres manual, Query Planning) as Postgres has it by default: methods of plans, their costs, and the
 * search among plans. With other values, the service's queries of the catalogs could take minutes. Those of the project
 * and of the server are for the project's own SQL: what the service runs reads catalogs, rows by key, or whole tables,
 * for which the costs of a server's disks choose no better plan.
 */
export const PLANNER = {
  ...Object.fromEntries(
    [
      ...['async_append', 'bitmapscan', 'gathermerge', 'hashagg', 'hashjoin', 'incremental_sort', 'indexonlyscan'],
      ...['indexscan', 'material', 'memoize', 'mergejoin', 'nestloop', 'parallel_append', 'parallel_hash'],
      ...['partition_pruning', 'seqscan', 'sort', 'tidscan'],
    ].map((method) => [`enable_${method}`, 'on']),
  ),
  from_collapse_limit: '8',
  join_collapse_limit: '8',
  geqo: 'on',
  geqo_threshold: '12',
  geqo_effort: '5',
  geqo_pool_size: '0',
  geqo_generations: '0',
  plan_cache_mode: 'auto',
  seq_page_cost: '1',
  random_page_cost: '4',
  cpu_tuple_cost: '0.01',
  cpu_index_tuple_cost: '0.005',
  cpu_operator_cost: '0.0025',
  parallel_setup_cost: '1000',
  parallel_tuple_cost: '0.1',
  effective_cache_size: '4GB',
  cursor_tuple_fraction: '0.1',
  recursive_worktable_factor: '10',
};

/** On the server, since Postgres 17 has a setting that earlier versions refuse. @throws EngineError database_unavailable */
export const pinnedOn = async (
  server: Pick<PostgresServer, 'hasTransactionTimeout'>,
): Promise<Record<string, string>> =>
  (await server.hasTransactionTimeout()) ? { ...PINNED, transaction_timeout: '0' } : PINNED;

/** Unlike other sessions, a client's receives notices, and its transactions are limited from outside. */
const FOR_CLIENTS = { client_min_messages: 'notice', idle_in_transaction_session_timeout: '0' };

/** For a reader, whatever a client asks for. */
const READ_ONLY = { default_transaction_read_only: 'on' };

/** How long an insert waits for a table that a schema change holds, or for a row of another transaction. */
const LOCK_TIMEOUT_MS = 5_000;

/**
 * @param pinned from {@link pinnedOn}
 * @param client null: the session is for the service itself
 */
export const sessionSettings = (
  kind: ConnectionKind,
  searchPath: readonly string[],
  pinned: Readonly<Record<string, string>>,
  client: ClientSettings | null,
): Pick<LoginOptions, 'client_encoding' | 'application_name' | 'options'> => ({
  client_encoding: client?.settings.client_encoding ?? PINNED.client_encoding,
  application_name: client?.applicationName ?? APPLICATION_NAMES[kind],
  options: startupOptions({
    ...pinned,
    ...(client === null ? {} : FOR_CLIENTS),
    search_path: searchPath.join(', '),
    default_transaction_read_only: 'off',
    ...client?.settings,
    ...(isReader(kind) ? READ_ONLY : {}),
    ...(client === null ? { lock_timeout: runsFreeSql(kind) ? '0' : String(LOCK_TIMEOUT_MS) } : {}),
    ...(client === null && !runsFreeSql(kind) ? PLANNER : {}),
  }),
});

/**
 * A setting for sessions that change several tables at once: Citus refuses that for a distributed table and a reference
 * table that it refers to, unless it processes shards one by one. Other servers accept it as a setting of an unknown
 * extension.
 */
export const SHARD_BY_SHARD = { 'citus.multi_shard_modify_mode': 'sequential' };
