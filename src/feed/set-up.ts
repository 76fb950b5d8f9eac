/**
 * The feed's part of a project's database: a slot, two publications, event triggers that describe changes of the schema, and which
 * tables it has (migration 020 of projects).
 */
import type { FeedSettings, FeedState } from '../contract/wire/changes.js';
import { FEED_SLOT } from '../tenancy/placement.js';
import { tableName } from './change-json.js';
import { fixed, inTransaction, lsnOf, type Session, sql } from '../pg/index.js';

/** The tables of which every change is published, and those of which only new rows are: they have no key. */
export const PUBLICATIONS = ['cdp_feed', 'cdp_feed_inserts'] as const;

/** The settings of a server whose changes are decoded. One sender more than is used: a new reader comes before the old one has left. */
export const feedConfig = (maxKeepMib: number): Readonly<Record<string, string>> => ({
  wal_level: 'logical',
  max_wal_senders: '2',
  max_replication_slots: '4',
  logical_decoding_work_mem: '16MB',
  wal_sender_timeout: '10s',
  max_slot_wal_keep_size: `${maxKeepMib}MB`,
});

/** What the slot says. */
export interface SlotState {
  /** Everything before it has been read. */
  readonly confirmed: bigint;
  readonly isLost: boolean;
}

const EVENT_TRIGGERS = [
  sql`CREATE EVENT TRIGGER cdp_feed_schema ON ddl_command_end WHEN TAG IN ('ALTER SCHEMA', 'ALTER TABLE', 'ALTER TYPE', 'CREATE INDEX',
    'CREATE SCHEMA', 'CREATE TABLE', 'CREATE TABLE AS', 'DROP EXTENSION', 'DROP INDEX', 'DROP OWNED', 'DROP SCHEMA', 'DROP TABLE', 'DROP TYPE',
    'SELECT INTO', 'GRANT', 'REVOKE', 'CREATE POLICY', 'ALTER POLICY', 'DROP POLICY')
    EXECUTE FUNCTION _cdp.schema_changed()`,
  sql`CREATE EVENT TRIGGER cdp_feed_rewrite ON table_rewrite EXECUTE FUNCTION _cdp.table_rewritten()`,
];

const DROP_EVENT_TRIGGERS = [
  fixed('DROP EVENT TRIGGER IF EXISTS cdp_feed_schema'),
  fixed('DROP EVENT TRIGGER IF EXISTS cdp_feed_rewrite'),
];

/** How long to wait for the tables that others have locked. */
const LIMITS = [fixed("SET lock_timeout = '10s'"), fixed("SET statement_timeout = '30s'")];

/** A slot that finds no publication when it is read may be of no use any more, so they come first. @throws PostgresError */
export async function makePublications(session: Session, major: number): Promise<void> {
  const generated = major >= 18 ? ", publish_generated_columns = 'stored'" : '';
  await session.script(`DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'cdp_feed') THEN
      CREATE PUBLICATION cdp_feed WITH (publish_via_partition_root = true${generated});
      CREATE PUBLICATION cdp_feed_inserts FOR TABLE ONLY _cdp.feed_schema
        WITH (publish = 'insert, truncate', publish_via_partition_root = true${generated});
    END IF;
  END $$`);
}

/**
 * Makes publications and triggers as the settings say; the next changes of tables that are new in the feed are in it.
 * @param anew the feed has described no table yet
 * @throws PostgresError
 */
export async function applySettings(session: Session, { tables, old }: FeedSettings, anew: boolean): Promise<void> {
  await session.run(LIMITS);
  await inTransaction(session, async () => {
    const names = tables === 'all' ? null : tables;
    const [wasOld] = await session.row(sql`SELECT old FROM _cdp.feed_settings`);
    await session.run([
      ...DROP_EVENT_TRIGGERS,
      sql`DELETE FROM _cdp.feed_settings`,
      sql`INSERT INTO _cdp.feed_settings (tables, old) VALUES (${names}::text[], ${old})`,
    ]);
    if (anew) await session.query(sql`DELETE FROM _cdp.feed_tables`);
    await session.query(sql`SELECT _cdp.follow_schema('PUT', ${wasOld === 't' && !old})`);
    await session.run(EVENT_TRIGGERS);
  });
}

/** Removes everything but the log, beginning with the slot: without its settings, a server that has one does not start. */
export async function tearDown(session: Session): Promise<void> {
  await dropSlot(session);
  await session.run(LIMITS);
  await inTransaction(session, async () => {
    const [wasOld] = await session.row(sql`SELECT old FROM _cdp.feed_settings`);
    await session.run(DROP_EVENT_TRIGGERS);
    if (wasOld !== undefined) {
      await session.query(sql`UPDATE _cdp.feed_settings SET tables = '{}', old = false`);
      await session.query(sql`SELECT _cdp.follow_schema('DELETE', ${wasOld === 't'})`);
    }
    await session.run([
      ...PUBLICATIONS.map((name) => fixed(`DROP PUBLICATION IF EXISTS ${name}`)),
      fixed('DELETE FROM _cdp.feed_settings'),
      fixed('DELETE FROM _cdp.feed_tables'),
    ]);
  });
}

/** Whether the database follows these settings, as far as a repair or a restore may have changed that. */
export async function isSetUp(session: Session, { tables, old }: FeedSettings): Promise<boolean> {
  const names = tables === 'all' ? null : tables;
  const [isSame] = await session.row(sql`SELECT EXISTS (SELECT FROM _cdp.feed_settings
      WHERE tables IS NOT DISTINCT FROM ${names}::text[] AND old = ${old})
    AND (SELECT count(*) FROM pg_publication WHERE pubname = ANY (${[...PUBLICATIONS]}::text[])) = 2
    AND (SELECT count(*) FROM pg_event_trigger WHERE evtname IN ('cdp_feed_schema', 'cdp_feed_rewrite')) = 2`);
  return isSame === 't';
}

/** null: there is none. Ends the session that reads it. */
export async function slotState(session: Session): Promise<SlotState | null> {
  const [confirmed, status] = await session.row(sql`SELECT confirmed_flush_lsn::text, wal_status,
      active_pid IS NOT NULL AND pg_terminate_backend(active_pid, 2000)
    FROM pg_replication_slots WHERE slot_name = ${FEED_SLOT}`);
  if (confirmed === undefined) return null;
  return { confirmed: lsnOf(confirmed ?? '0/0'), isLost: status === 'lost' };
}

/** @returns the position from which on it has all changes; waits for open transactions that have written */
export async function createSlot(session: Session): Promise<bigint> {
  await session.query(fixed("SET statement_timeout = '20s'"));
  const [lsn] = await session.row(
    sql`SELECT lsn::text FROM pg_create_logical_replication_slot(${FEED_SLOT}, 'pgoutput')`,
  );
  return lsnOf(lsn ?? '0/0');
}

export async function dropSlot(session: Session): Promise<void> {
  await session.query(sql`SELECT pg_terminate_backend(active_pid, 2000) FROM pg_replication_slots
    WHERE slot_name = ${FEED_SLOT} AND active_pid IS NOT NULL`);
  await session.query(
    sql`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ${FEED_SLOT}`,
  );
}

/** A number near those of the transactions that follow, with both halves. */
export async function currentXid(session: Session): Promise<bigint> {
  const [xid] = await session.row(sql`SELECT pg_snapshot_xmax(pg_current_snapshot())::text`);
  return BigInt(xid ?? '0');
}

export async function flushedLsn(session: Session): Promise<bigint> {
  const [lsn] = await session.row(sql`SELECT pg_current_wal_flush_lsn()::text`);
  return lsnOf(lsn ?? '0/0');
}

/** The WAL that the server keeps for the feed. */
export interface WalKept {
  readonly bytes: number;
  /** As pg_replication_slots calls it: all but `reserved` is more than the server would keep by itself. */
  readonly status: string;
}

export async function walKept(session: Session): Promise<WalKept> {
  const [bytes, status] =
    await session.row(sql`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, wal_status
    FROM pg_replication_slots WHERE slot_name = ${FEED_SLOT}`);
  return { bytes: Number(bytes ?? 0), status: status ?? 'lost' };
}

/** The tables in the feed. */
export async function tablesOf(session: Session): Promise<NonNullable<FeedState['table_list']>> {
  const rows = await session.query(sql`SELECT schema_name, table_name, has_identity, is_full FROM _cdp.feed_tables_now
    WHERE is_member AND root_oid IS NULL ORDER BY schema_name <> 'data', 1, 2`);
  return rows.map(([schema, name, hasIdentity, isFull]) => ({
    name: tableName(schema ?? '', name ?? ''),
    changes: hasIdentity === 't' ? 'all' : 'inserts',
    old: isFull === 't',
  }));
}
