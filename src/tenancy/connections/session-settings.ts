/** The settings with which sessions of a project begin, whatever the project has set for its roles. */
import { type LoginOptions, startupOptions } from '../../pg/index.js';
import { type ConnectionKind, isReader, runsFreeSql } from './connection-kind.js';

/** Settings from the startup packet of a client of the Postgres port. */
export interface ClientSettings {
  readonly applicationName: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** Settings on which responses, checks or the start of a connection depend. `ALTER ROLE … SET` cannot override them. */
const PINNED = {
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
  check_function_bodies: 'on',
  // A library that does not exist would make every login fail.
  local_preload_libraries: '',
  default_tablespace: '',
  temp_tablespaces: '',
  default_table_access_method: 'heap',
  statement_timeout: '0',
  idle_session_timeout: '0',
  // If the service dies between two statements, no locks may stay.
  idle_in_transaction_session_timeout: '90000',
  client_connection_check_interval: '1000',
  // Postgres reports a commit that no standby has confirmed as a warning.
  client_min_messages: 'warning',
  jit: 'off',
};

/** Unlike other sessions, a client's receives notices, and its transactions are limited from outside. */
const FOR_CLIENTS = { ...PINNED, client_min_messages: 'notice', idle_in_transaction_session_timeout: '0' };

/** For a reader, whatever a client asks for. */
const READ_ONLY = { default_transaction_read_only: 'on' };

/** How long an insert waits for a table that a schema change holds, or for a row of another transaction. */
const TYPED_LOCK_TIMEOUT_MS = 5_000;

/** @param client null: the session is for the service itself */
export const sessionSettings = (
  kind: ConnectionKind,
  searchPath: readonly string[],
  client: ClientSettings | null,
): Pick<LoginOptions, 'client_encoding' | 'application_name' | 'options'> => ({
  client_encoding: client?.settings.client_encoding ?? PINNED.client_encoding,
  application_name: client?.applicationName ?? `cdp ${kind}`,
  options: startupOptions({
    ...(client === null ? PINNED : FOR_CLIENTS),
    search_path: searchPath.join(', '),
    default_transaction_read_only: 'off',
    ...client?.settings,
    ...(isReader(kind) ? READ_ONLY : {}),
    ...(client === null ? { lock_timeout: runsFreeSql(kind) ? '0' : String(TYPED_LOCK_TIMEOUT_MS) } : {}),
  }),
});
