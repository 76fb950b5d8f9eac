/**
 * Opens connections that are logged in as a project's own role. Whatever a project did to its roles (password,
 * `ALTER ROLE … SET`, lost grants) is noticed here and mended once, so that it cannot lock the service or itself out.
 */
import type { Credentials } from './credentials.js';
import { PostgresError } from './errors.js';
import type { Placement } from './placement.js';
import type { Provisioning } from './provisioning.js';
import { type LoginOptions, type ServerAddress, startupOptions } from './server.js';
import { sql, statement } from './sql.js';
import type { Backend, Watchdog } from './watchdog.js';
import { login } from './wire/login.js';
import { Session } from './wire/session.js';

/**
 * What a connection is for. Connections are never lent from one lane to another: one that ran free SQL never serves
 * inserts or schema calls (contract section 7).
 */
export const LANES = ['typed', 'sql-write', 'sql-read'] as const;
export type Lane = (typeof LANES)[number];

/** Settings that the answers, the checks or the start of a connection depend on. `ALTER ROLE … SET` cannot change them. */
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
  // A library that does not exist would end every login.
  local_preload_libraries: '',
  default_tablespace: '',
  temp_tablespaces: '',
  default_table_access_method: 'heap',
  statement_timeout: '0',
  idle_session_timeout: '0',
  // A service that dies between two statements must not leave locks behind.
  idle_in_transaction_session_timeout: '90000',
  client_connection_check_interval: '1000',
  client_min_messages: 'error',
  jit: 'off',
};

/** How long an insert waits for a table that a schema change holds, or for a row of another transaction. */
const TYPED_LOCK_TIMEOUT_MS = 5_000;

/**
 * Why a login fails that the project itself has spoilt: its role's password is another one, its right to connect is
 * gone, or `transaction_timeout`, which only Postgres 17 and later know and so is not pinned, ends every transaction.
 */
const MENDABLE = new Set(['28P01', '42501', '25P04']);

export interface ProjectSession {
  readonly session: Session;
  readonly backend: Backend;
}

export class ProjectSessions {
  constructor(
    private readonly address: ServerAddress,
    private readonly credentials: Credentials,
    private readonly provisioning: Provisioning,
    private readonly watchdog: Watchdog,
  ) {}

  /**
   * A new connection of a lane, clean and with its rights in place.
   * @throws PostgresError, or a network error, where none can be had
   */
  async open(placement: Placement, lane: Lane): Promise<ProjectSession> {
    const role = lane === 'sql-read' ? placement.reader : placement.writer;
    const session = (await this.loginSound(placement, role, lane)) ?? (await this.loginMended(placement, role, lane));
    return this.identified(session, role);
  }

  /** null where the project has done something to its roles that a fresh connection shows. */
  private async loginSound(placement: Placement, role: string, lane: Lane): Promise<Session | null> {
    let session: Session | null = null;
    try {
      session = await this.login(placement, role, lane);
      if (await this.isSound(session, placement, lane)) return session;
    } catch (error) {
      if (!(error instanceof PostgresError && MENDABLE.has(error.sqlstate))) throw error;
    }
    session?.close();
    return null;
  }

  private async loginMended(placement: Placement, role: string, lane: Lane): Promise<Session> {
    // Both roles: the rights of the reader are given by a login as the writer.
    for (const each of [placement.writer, placement.reader]) {
      await this.provisioning.resetRole(each, placement.database);
    }
    await this.provisioning.grant(placement);
    await this.provisioning.grantDefaults(placement);
    return this.login(placement, role, lane);
  }

  private async login(placement: Placement, role: string, lane: Lane): Promise<Session> {
    const options: LoginOptions = {
      ...this.address,
      database: placement.database,
      user: role,
      password: this.credentials.password(role),
      application_name: `cdp ${lane}`,
      options: startupOptions({
        ...PINNED,
        search_path: placement.schema,
        default_transaction_read_only: lane === 'sql-read' ? 'on' : 'off',
        lock_timeout: lane === 'typed' ? String(TYPED_LOCK_TIMEOUT_MS) : '0',
      }),
    };
    return new Session(await login(options));
  }

  /**
   * False where settings come from the role itself, its rights in the schema are gone, or the reader would not see what
   * the writer makes next.
   */
  private async isSound(session: Session, { schema, writer, reader }: Placement, lane: Lane): Promise<boolean> {
    const privilege = lane === 'sql-read' ? 'USAGE' : 'CREATE';
    const rows = await session.query(
      statement(sql`SELECT pg_catalog.has_schema_privilege(${schema}, 'USAGE')
        AND pg_catalog.has_schema_privilege(${schema}, ${privilege})
        AND 2 = (SELECT pg_catalog.count(*) FROM pg_catalog.pg_default_acl d, pg_catalog.aclexplode(d.defaclacl) a
          WHERE d.defaclobjtype IN ('r', 'S') AND d.defaclnamespace = ${schema}::pg_catalog.regnamespace
            AND d.defaclrole = ${writer}::pg_catalog.regrole
            AND a.grantee = ${reader}::pg_catalog.regrole AND a.privilege_type = 'SELECT')
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings WHERE source IN ('user', 'database user'))`),
    );
    return rows[0]?.[0] === 't';
  }

  private async identified(session: Session, role: string): Promise<ProjectSession> {
    const { processId, secretKey } = session;
    const startedAt = await this.watchdog.startOf(processId, role);
    return { session, backend: { processId, secretKey, role, startedAt } };
  }
}
