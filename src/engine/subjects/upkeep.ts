/** After an erasure: freeing the space, refreshing materialized views, a second look; and, if it is deep, removing the bytes. */
import { setImmediate } from 'node:timers/promises';
import { messageOf } from '../../contract/errors.js';
import { roundedMs } from '../../contract/wire/fields.js';
import type { SubjectKind, Upkeep } from '../../contract/wire/subjects.js';
import type { Project } from '../../db/project.js';
import type { TellsOf } from '../../feed/erase-from-log.js';
import type { Feeds } from '../../feed/feeds.js';
import { BEGIN, fixed, ident, type Session, sql, type Statement } from '../../pg/index.js';
import type { Servers } from '../../tenancy/servers.js';
import { inDatabase } from '../../tenancy/tenancy.js';
import { homeOf } from './declaration.js';
import { lookAgain, SEE_EVERYTHING } from './erase-subject.js';
import type { Values } from './find-subject.js';
import { readSubjectCatalog, resolveKind, type Subjects, type SubjectTable, tableName } from './subject-tables.js';
import { Traces } from './traces.js';

/** For one statement. */
const STEP_MS = 3_600_000;

interface Erased {
  readonly kind: string;
  readonly declared: SubjectKind;
  readonly values: Values;
}

/** What no longer fits the declaration and a step that fails are named, and the others go on. @throws EngineError if the database is not there */
export async function cleanUp(
  { servers, feeds }: { readonly servers: Servers; readonly feeds: Feeds },
  project: Project,
  { kind, declared, values }: Erased,
  { deep, signal }: { readonly deep: boolean; readonly signal: AbortSignal },
): Promise<Upkeep> {
  const steps: Upkeep['steps'] = [];
  const step = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    const started = performance.now();
    let problem: string | null = null;
    try {
      await work();
    } catch (error) {
      signal.throwIfAborted();
      problem = messageOf(error);
    }
    steps.push({ step: name, ms: roundedMs(performance.now() - started), problem });
  };
  /** Outside a transaction, as the owner of the tables. */
  const run = (statement: Statement): Promise<unknown> =>
    project.read({ connection: 'write', signal, timeoutMs: STEP_MS }, (db) => db.query(statement));
  const reading = { connection: 'write', signal, timeoutMs: STEP_MS } as const;
  const { subjects, problems } = await project.read({ ...reading, preamble: [BEGIN] }, async (db) =>
    resolveKind(kind, declared, await readSubjectCatalog(db, homeOf(project))),
  );
  for (const { table, problem } of problems) steps.push({ step: table, ms: 0, problem });
  for (const table of subjects.tables) {
    if (deep)
      await step(`VACUUM FULL ${table.shown} (ACCESS EXCLUSIVE lock)`, () =>
        run(sql`VACUUM (FULL, ANALYZE) ${tableName(table)}`),
      );
    else await step(`VACUUM ${table.shown}`, () => run(sql`VACUUM (ANALYZE) ${tableName(table)}`));
  }
  for (const view of subjects.materializedViews)
    await step(`REFRESH MATERIALIZED VIEW ${view.shown}`, () =>
      run(sql`REFRESH MATERIALIZED VIEW ${ident(view.schema, view.name)}`),
    );
  if (project.row.feed !== null) {
    const traces = new Traces(subjects, values);
    const tellsOf: TellsOf = (table, record) => traces.isInRecord(table, JSON.stringify(record));
    await step('The log of the feed', async () => (await feeds.of(project.row)).erase(tellsOf, () => setImmediate()));
  }
  if (deep) for (const [name, work] of deepSteps(servers, project, subjects)) await step(name, work);
  // Its sessions show their last statements.
  project.recheckRights();
  const second_look = await project.read({ ...reading, preamble: [BEGIN, SEE_EVERYTHING] }, (db) =>
    lookAgain(db, subjects, values),
  );
  return { steps, second_look };
}

/** Waits for locks of the project, and for disks. */
const DEEP_SETTINGS = [fixed("SET statement_timeout = '600s'"), fixed("SET lock_timeout = '10s'")];

/** Tables of Postgres and of the service in which the person may be, besides the declared ones. */
const OF_SERVICE = ['_cdp.quarantined', '_cdp.idempotency_keys', '_cdp.stream_chunks'];

/** What only the service's own role can do. It runs nothing that the project has created. */
function deepSteps(
  servers: Servers,
  { row: { placement } }: Project,
  { tables }: Subjects,
): [name: string, work: () => Promise<unknown>][] {
  const asService = (work: (session: Session) => Promise<unknown>) =>
    inDatabase(servers.tenancyOf(placement), placement, async (session) => {
      for (const setting of DEEP_SETTINGS) await session.query(setting);
      await work(session);
    });
  const steps: [string, () => Promise<unknown>][] = [
    [
      'statistics of empty tables',
      () =>
        asService(async (session) => {
          for (const table of tables) await clearStatistics(session, table);
        }),
    ],
    ...OF_SERVICE.map((name): [string, () => Promise<unknown>] => [
      `VACUUM FULL ${name}`,
      () => asService((session) => session.query(fixed(`VACUUM (FULL, ANALYZE) ${name}`))),
    ]),
    ...['pg_statistic', 'pg_statistic_ext_data'].map((name): [string, () => Promise<unknown>] => [
      `VACUUM FULL ${name}`,
      () => asService((session) => session.query(fixed(`VACUUM (FULL) pg_catalog.${name}`))),
    ]),
  ];
  if (servers.tenancyOf(placement).files !== null) steps.push(['write-ahead log', () => asService(overwriteLog)]);
  return steps;
}

/** ANALYZE leaves the samples of a table that is empty now. */
async function clearStatistics(session: Session, table: SubjectTable): Promise<void> {
  await session.query(sql`DELETE FROM pg_catalog.pg_statistic s USING pg_catalog.pg_class c, pg_catalog.pg_namespace n
    WHERE s.starelid = c.oid AND n.oid = c.relnamespace AND n.nspname = ${table.schema} AND c.relname = ${table.name}
      AND c.reltuples <= 0`);
}

/** Segments of the log are used again as they are: each is filled up with zeros once. */
async function overwriteLog(session: Session): Promise<void> {
  await session.query(fixed('CHECKPOINT'));
  const [segments] = await session.row(fixed('SELECT count(*) FROM pg_ls_waldir()'));
  for (let left = Number(segments) + 2; left > 0; left--) {
    await session.query(fixed("SELECT pg_logical_emit_message(false, 'cdp', '')"));
    await session.query(fixed('SELECT pg_switch_wal()'));
  }
  await session.query(fixed('CHECKPOINT'));
}
