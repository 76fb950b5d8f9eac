/** A dry run: the request runs, is rolled back at its end, and reports what it would have done. */
import { roundedMs } from '../contract/wire/fields.js';
import type { Impact } from '../contract/wire/dry-run.js';
import {
  fixed,
  type Fragment,
  type Result,
  ROLLBACK,
  type Row,
  type Session,
  sql,
  type Statement,
  type Step,
} from '../pg/index.js';

/** The impact before anything has run. */
const NOTHING: Impact = { rows: [], locks: [], rewritten: [], duration_ms: 0 };

/** Flushes the counts of the session's earlier transactions, so that they are not added to the next. */
const FLUSH_COUNTS = fixed('SELECT pg_catalog.pg_stat_force_next_flush()');

export class DryRun {
  /** Known after {@link end}. */
  impact = NOTHING;
  /** Functions that mention what the request renames. */
  mentions: NonNullable<Impact['mentions']> = [];
  private started = 0;
  /** The state before, by oid. */
  private before: Relations = new Map();

  /** @param schema of the project */
  constructor(private readonly schema: string) {}

  /** Call this before the transaction begins. */
  async begin(session: Session): Promise<void> {
    await session.query(FLUSH_COUNTS);
    this.before = relationsOf(await session.query(this.relations()));
    this.started = performance.now();
  }

  /**
   * Replaces the commit: runs the last statements and the checks of a commit, and rolls back.
   * @param preamble statements that begin the transaction; none: it has begun
   * @returns the results of `beforeCommit`, and the error if Postgres refused one of them, or would refuse the commit
   * @throws ConnectionLost
   */
  async end(
    session: Session,
    preamble: readonly Statement[],
    beforeCommit: readonly Step[],
  ): Promise<{ results: readonly Result[]; error: Error | null }> {
    const outcome = await session.pipeline([...preamble, ...beforeCommit, fixed('SET CONSTRAINTS ALL IMMEDIATE')]);
    const results = outcome.results.slice(preamble.length, preamble.length + beforeCommit.length);
    if (outcome.error !== null) return { results, error: outcome.error };
    const duration_ms = roundedMs(performance.now() - this.started);
    const [rows, locks, relations] = await session.run([this.writtenRows(), LOCKS, this.relations()]);
    await session.run([ROLLBACK]);
    this.impact = {
      rows: (rows?.rows ?? []).map(([table, inserted, updated, deleted]) => ({
        table: table ?? '',
        inserted: Number(inserted),
        updated: Number(updated),
        deleted: Number(deleted),
      })),
      ...impactOn(this.before, relationsOf(relations?.rows ?? []), locks?.rows ?? []),
      ...(this.mentions.length === 0 ? {} : { mentions: this.mentions }),
      duration_ms,
    };
    return { results, error: null };
  }

  private relations(): Statement {
    return sql`SELECT c.oid, ${this.shownName}, c.relfilenode, c.relkind = 'S' FROM pg_catalog.pg_class c ${IN_SCHEMA}
      WHERE ${IS_OF_PROJECT} AND c.relkind IN ('r', 'p', 'v', 'm', 'S')`;
  }

  private writtenRows(): Statement {
    return sql`SELECT ${this.shownName}, n_tup_ins, n_tup_upd, n_tup_del FROM pg_catalog.pg_stat_xact_user_tables s
      JOIN pg_catalog.pg_class c ON c.oid = s.relid ${IN_SCHEMA}
      WHERE ${IS_OF_PROJECT} AND n_tup_ins + n_tup_upd + n_tup_del > 0 ORDER BY 1`;
  }

  /** The table's name, qualified if it is not in the API's schema. */
  private get shownName(): Fragment {
    return sql`CASE WHEN n.nspname = ${this.schema}::pg_catalog.name THEN c.relname::pg_catalog.text
      ELSE pg_catalog.concat(n.nspname, '.', c.relname) END`;
  }
}

const IN_SCHEMA = sql`JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace`;

/** Excludes schemas of the service, of extensions and of Postgres, including those of temporary tables. */
const IS_OF_PROJECT = sql`NOT n.nspname = ANY ('{_cdp,extensions,information_schema}'::pg_catalog.name[])
  AND NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_')`;

/** By oid, including relations that the transaction has dropped. */
const LOCKS = fixed(
  'SELECT l.relation, pg_catalog.json_agg(DISTINCT l.mode) FROM _cdp.session_locks() AS l GROUP BY l.relation',
);

/** nextval() and setval() hold this lock of a sequence until the end of the transaction. */
const SEQUENCE_USED = 'RowExclusiveLock';

interface Relation {
  readonly name: string;
  readonly file: string;
  readonly isSequence: boolean;
}
type Relations = ReadonlyMap<string | null, Relation>;

const relationsOf = (rows: readonly Row[]): Relations =>
  new Map(
    rows.map(([oid = null, name, file, isSequence]) => [
      oid,
      { name: name ?? '', file: file ?? '', isSequence: isSequence === 't' },
    ]),
  );

/** @param locks the rows of {@link LOCKS} */
function impactOn(before: Relations, after: Relations, locks: readonly Row[]): Omit<Impact, 'rows' | 'duration_ms'> {
  const modesByOid = new Map(locks.map(([oid = null, modes]) => [oid, JSON.parse(modes ?? '[]') as string[]]));
  const relations = [...new Map([...before, ...after])]
    .map(([oid, { name, isSequence }]) => {
      return { name, isSequence, was: before.get(oid), is: after.get(oid), modes: modesByOid.get(oid) ?? [] };
    })
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  const tables = relations.filter(({ isSequence }) => !isSequence);
  const rewritten = tables.filter(({ was, is }) => was !== undefined && is !== undefined && was.file !== is.file);
  const dropped = tables.filter(({ is }) => is === undefined);
  const sequences = relations.filter(
    ({ isSequence, was, modes }) => isSequence && was !== undefined && modes.includes(SEQUENCE_USED),
  );
  const nameOf = ({ name }: { readonly name: string }) => name;
  return {
    locks: tables.filter(({ modes }) => modes.length > 0).map(({ name, modes }) => ({ table: name, modes })),
    rewritten: rewritten.map(nameOf),
    ...(dropped.length === 0 ? {} : { dropped: dropped.map(nameOf) }),
    ...(sequences.length === 0 ? {} : { sequences: sequences.map(nameOf) }),
  };
}
