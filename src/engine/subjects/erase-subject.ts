/** The transaction that erases people: their rows in the order of foreign keys, the service's own places, and a second look before the commit. */
import { EngineError } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import type { ErasureOutcome } from '../../contract/wire/subjects.js';
import { fixed, type Fragment, ident, join, sql, trusted } from '../../pg/index.js';
import { missingIndexes } from './coverage.js';
import {
  belongsTo,
  type Bounds,
  countRows,
  findSubject,
  type Found,
  requireNotJoined,
  type Values,
} from './find-subject.js';
import { SEGMENT_TABLES } from '../segments/segment-sql.js';
import { visitPlaces } from './places.js';
import {
  type Home,
  type Runner,
  type SetColumn,
  type Subjects,
  type SubjectTable,
  tableName,
} from './subject-tables.js';
import { Traces } from './traces.js';

/** How often to erase what triggers and others have written meanwhile, until nothing is left. */
const MOST_ROUNDS = 5;

/** Policies would hide rows in silence. With this, Postgres refuses instead. */
export const SEE_EVERYTHING = fixed('SET LOCAL row_security = off');

interface Erased {
  readonly found: Found;
  readonly result: ErasureOutcome;
}

/**
 * Erases everything that is found, in the transaction of `db`.
 * @param requireNoPrepared throws if a prepared transaction may hold the person
 * @throws EngineError constraint_violation, naming what keeps or
 * rewrites the rows; invalid_request as `findSubject`. The caller rolls back.
 */
export async function eraseSubject(
  db: Runner,
  home: Home,
  subjects: Subjects,
  asked: Values,
  bounds: Bounds,
  requireNoPrepared: () => Promise<void>,
): Promise<Erased> {
  await db.run([SEE_EVERYTHING]);
  await requireNoPrepared();
  const before = await writtenRows(db, home);
  const start = await startOf(db);
  let found = await findSubject(db, subjects, asked, bounds);
  requireNotJoined(found, bounds);
  const own = new Map(subjects.tables.map(({ shown }) => [shown, { deleted: 0, changed: 0 }]));
  let rounds = 0;
  for (let left = withRows(found.rows); left.length > 0; rounds++) {
    if (rounds === MOST_ROUNDS) throw keptBy(left);
    for (const table of subjects.tables) {
      const condition = belongsTo(table, found.values);
      if (condition === null || found.rows.get(table.shown) === 0) continue;
      const count = await db.rowCount(eraseRows(table, condition));
      const sums = own.get(table.shown);
      if (sums !== undefined) sums[table.set === null ? 'deleted' : 'changed'] += count;
    }
    // By the links, too: a row that came meanwhile may name others.
    found = await findSubject(db, subjects, found.values, { ...bounds, joined: true });
    left = withRows(found.rows);
    if (left.length > 0)
      left = withRows(await countRows(db, subjects, found.values, bounds.maxRows, isOfBefore(start)));
  }
  const cameMeanwhile = withRows(found.rows).reduce((sum, [, count]) => sum + count, 0);
  const traces = new Traces(subjects, found.values);
  const places = await visitPlaces({ db, schema: home.schema, traces, erases: true });
  await requireNoPrepared();
  const after = await writtenRows(db, home);
  const result: ErasureOutcome = {
    transaction: start.transaction,
    tables: [...own].map(([table, sums]) => ({ table, ...sums })),
    others: othersOf(before, after, own),
    places,
    rounds,
    came_meanwhile: cameMeanwhile,
    looked_through: subjects.tables.flatMap(({ shown, columns }) => columns.map(({ name }) => `${shown}.${name}`)),
    missing_indexes: missingIndexes(subjects),
  };
  return { found, result };
}

const withRows = (rows: ReadonlyMap<string, number>): (readonly [string, number])[] =>
  [...rows].filter(([, count]) => count > 0);

/** The state before the erasure: a snapshot, and the number of its transaction. */
interface Start {
  readonly snapshot: string;
  readonly transaction: string;
}

async function startOf(db: Runner): Promise<Start> {
  const [row] = await db.query(sql`SELECT pg_catalog.pg_current_snapshot(), pg_catalog.pg_current_xact_id()`);
  return { snapshot: row?.[0] ?? '', transaction: row?.[1] ?? '' };
}

/**
 * A condition on a visible row: it is of the state before, or this transaction has written it, perhaps in a trigger. Others
 * are of the state after. xmin has 32 bits, and counts from the number of the transaction.
 */
function isOfBefore({ snapshot, transaction }: Start): Fragment {
  const now = sql`${transaction}::pg_catalog.int8`;
  const ahead = sql`((xmin::pg_catalog.text::pg_catalog.int8 - ${now} % 4294967296 + 4294967296) % 4294967296)`;
  const number = sql`GREATEST(${now} + CASE WHEN ${ahead} < 2147483648 THEN ${ahead} ELSE ${ahead} - 4294967296 END, 3)`;
  const full = sql`(${number})::pg_catalog.text::pg_catalog.xid8`;
  return sql`(pg_catalog.pg_visible_in_snapshot(${full}, ${snapshot}::pg_catalog.pg_snapshot)
    OR pg_catalog.pg_xact_status(${full}) IS DISTINCT FROM 'committed')`;
}

/** How many rows there are of what was erased. */
export async function lookAgain(db: Runner, subjects: Subjects, values: Values): Promise<number> {
  const counts = await countRows(db, subjects, values, Number.MAX_SAFE_INTEGER - 1);
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function eraseRows(table: SubjectTable, condition: Fragment): Fragment {
  if (table.set === null) return sql`DELETE FROM ${tableName(table)} WHERE ${condition}`;
  return sql`UPDATE ${tableName(table)} SET ${join(table.set.map(assignment))} WHERE ${condition}`;
}

function assignment({ name, castType, to }: SetColumn): Fragment {
  if (to === null) return sql`${ident(name)} = NULL`;
  const text =
    typeof to === 'object'
      ? sql`pg_catalog.concat(${to.random}::pg_catalog.text, pg_catalog.gen_random_uuid())`
      : sql`${String(to)}::pg_catalog.text`;
  return sql`${ident(name)} = ${text}::${trusted(castType)}`;
}

const keptBy = (remaining: readonly (readonly [string, number])[]): EngineError =>
  new EngineError(
    'constraint_violation',
    `Rows stay, or are written anew, however often they are erased: ${remaining
      .map(([table, count]) => `${counted(count, 'row')} of "${table}"`)
      .join(', ')}. Nothing was erased`,
    { hint: 'A trigger or a rule of the project does that: see pg_trigger and pg_rules.' },
  );

type Written = ReadonlyMap<string, readonly [inserted: number, updated: number, deleted: number]>;

/** What the session has written, by table; of a partitioned one altogether. */
async function writtenRows(db: Runner, { schema }: Home): Promise<Written> {
  const rows = await db.query(sql`
    SELECT CASE WHEN n.nspname = ${schema}::pg_catalog.name THEN c.relname::pg_catalog.text
        ELSE pg_catalog.concat(n.nspname, '.', c.relname) END,
      pg_catalog.sum(n_tup_ins), pg_catalog.sum(n_tup_upd), pg_catalog.sum(n_tup_del)
    FROM pg_catalog.pg_stat_xact_user_tables s
      JOIN pg_catalog.pg_class c ON c.oid = COALESCE(pg_catalog.pg_partition_root(s.relid::pg_catalog.regclass)::pg_catalog.oid, s.relid)
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname <> '_cdp'::pg_catalog.name AND n_tup_ins + n_tup_upd + n_tup_del > 0 GROUP BY 1`);
  return new Map(
    rows.map(([table, inserted, updated, deleted]) => [
      table ?? '',
      [Number(inserted), Number(updated), Number(deleted)],
    ]),
  );
}

/** What foreign keys and triggers have written besides. */
function othersOf(
  before: Written,
  after: Written,
  own: ReadonlyMap<string, { readonly deleted: number; readonly changed: number }>,
): ErasureOutcome['others'] {
  return [...after].flatMap(([table, [inserted, updated, deleted]]) => {
    // One of the places.
    if (SEGMENT_TABLES.includes(table) && !own.has(table)) return [];
    const [earlierInserted, earlierUpdated, earlierDeleted] = before.get(table) ?? [0, 0, 0];
    const { deleted: ownDeleted = 0, changed = 0 } = own.get(table) ?? {};
    const counts = {
      inserted: inserted - earlierInserted,
      updated: Math.max(0, updated - earlierUpdated - changed),
      deleted: Math.max(0, deleted - earlierDeleted - ownDeleted),
    };
    return counts.inserted + counts.updated + counts.deleted > 0 ? [{ table, ...counts }] : [];
  });
}
