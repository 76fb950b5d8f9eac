/** Finding people and handing over what there is about them, in one snapshot that changes nothing. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { FindResponse, Joined, SubjectBody } from '../../contract/wire/subjects.js';
import type { Project } from '../../db/project.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { fixed, ident, join, sql, trusted } from '../../pg/index.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import { declaredKind, homeOf, resolveNow } from './declaration.js';
import { SEE_EVERYTHING } from './erase-subject.js';
import { belongsTo, type Bounds, DEFAULT_MAX_ROWS, findSubject, type Found, normalizeAsked } from './find-subject.js';
import { visitPlaces } from './places.js';
import { readSubjectCatalog, type Subjects, tableName } from './subject-tables.js';
import { Traces } from './traces.js';

export interface AskedSubject {
  readonly kind: string;
  readonly identifiers: Readonly<Record<string, readonly string[]>>;
  readonly bounds: Bounds;
}

/** @throws EngineError invalid_request, invalid_value */
export function askedSubject({ max_rows: maxRows = DEFAULT_MAX_ROWS, joined, ...kinds }: SubjectBody): AskedSubject {
  const [first, ...others] = Object.entries(kinds);
  if (first === undefined || others.length > 0)
    throw new EngineError('invalid_request', 'Name one kind of subject', {
      hint: 'As in {"person": {"email": "ada@example.com"}}.',
    });
  const [kind, given] = first;
  const identifiers = Object.fromEntries(
    Object.entries(given as Readonly<Record<string, string | number | readonly (string | number)[]>>).map(
      ([name, values]) => [
        name,
        (Array.isArray(values) ? (values as (string | number)[]) : [values as string | number]).map(textOf),
      ],
    ),
  );
  const subjects = Math.max(...Object.values(identifiers).map((values) => new Set(values).size));
  return { kind, identifiers, bounds: { maxRows, subjects, joined: joined === true } };
}

function textOf(value: string | number): string {
  if (typeof value === 'string') {
    if (/[\0\p{Cs}]/u.test(value))
      throw new EngineError('invalid_value', 'An identifier is no text that Postgres can store');
    return value;
  }
  if (Number.isSafeInteger(value)) return String(value);
  throw new EngineError('invalid_value', 'An identifier is too large for a number of JSON', {
    hint: 'Send it as a string.',
  });
}

const SNAPSHOT = fixed('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');

interface LookUp {
  /** Whether the caller may read the places of the service, as only the writer may. */
  readonly asWriter: boolean;
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

const HOW_LONG_MS = 60_000;

/** In a snapshot. As the reader, policies and rights refuse what it may not read, so that nothing is left out in silence. */
async function inSnapshot<T>(
  services: { readonly control: ControlDatabase },
  project: Project,
  { kind, identifiers, bounds }: AskedSubject,
  { asWriter, signal, timeoutMs = HOW_LONG_MS }: LookUp,
  work: (db: QueryRunner, subjects: Subjects, found: Found) => Promise<T>,
): Promise<T> {
  const declared = await declaredKind(services, project.id, kind);
  const connection = asWriter ? 'write-unless-fenced' : 'sql-read';
  const preamble = [SNAPSHOT, SEE_EVERYTHING];
  return project.read({ connection, signal, timeoutMs, preamble }, async (db) => {
    const { subjects } = await resolveNow(db, homeOf(project), kind, declared, true);
    const asked = await normalizeAsked(db, subjects, identifiers);
    return work(db, subjects, await findSubject(db, subjects, asked, bounds));
  });
}

/** Rows of a table in a response. */
const ROWS_SHOWN = 100;
const BYTES_SHOWN = 1024 * 1024;
const VALUES_SHOWN = 1_000;

interface FoundSubject extends Omit<FindResponse, 'success' | 'message' | 'tables'> {
  readonly joined: Joined;
  /** `rows`: JSON, with every digit. */
  readonly tables: readonly { readonly table: string; readonly row_count: number; readonly rows: readonly string[] }[];
}

/** @throws EngineError not_found, invalid_request, invalid_value, permission_denied */
export function findSubjects(
  services: { readonly control: ControlDatabase },
  project: Project,
  asked: AskedSubject,
  options: LookUp & { readonly searches: boolean },
): Promise<FoundSubject> {
  return inSnapshot(services, project, asked, options, async (db, subjects, found) => {
    const tables: { table: string; row_count: number; rows: string[] }[] = [];
    for (const table of subjects.tables) {
      const count = found.rows.get(table.shown) ?? 0;
      const condition = count === 0 ? null : belongsTo(table, found.values);
      const rows =
        condition === null
          ? []
          : await db.query(sql`SELECT text FROM (SELECT text, pg_catalog.row_number() OVER () AS n,
                pg_catalog.sum(pg_catalog.octet_length(text)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
              FROM (SELECT pg_catalog.to_jsonb(found)::pg_catalog.text AS text FROM ${tableName(table)} AS found
                WHERE ${condition} LIMIT ${ROWS_SHOWN}) AS few) AS page WHERE bytes <= ${BYTES_SHOWN}`);
      tables.push({ table: table.shown, row_count: count, rows: rows.map(([text]) => text ?? '') });
    }
    const identifiers = Object.fromEntries(
      Array.from(found.values, ([name, values]) => [name, [...values].slice(0, VALUES_SHOWN)]),
    );
    const places = options.asWriter ? await placesOf(db, project, subjects, found) : [];
    const searched = options.searches ? { searched: await search(db, project, subjects, found) } : {};
    return { kind: subjects.kind, identifiers, joined: found.joined, tables, places, ...searched };
  });
}

/** What the places of the service hold; only the writer may read them. */
const placesOf = (db: QueryRunner, project: Project, subjects: Subjects, found: Found) =>
  visitPlaces({ db, schema: homeOf(project).schema, traces: new Traces(subjects, found.values), erases: false });

/** How much of a table is fetched at once. */
const FETCHED_BYTES = 1024 * 1024;
const MOST_FETCHED = 1_000;

/**
 * All rows as NDJSON, in one snapshot.
 * @param write takes a part, and resolves when more may be written
 * @returns the last line: what was handed over
 * @throws EngineError as {@link findSubjects}
 */
export function exportSubject(
  services: { readonly control: ControlDatabase },
  project: Project,
  asked: AskedSubject,
  options: LookUp,
  write: (text: string) => Promise<void>,
): Promise<{ readonly rows: number; readonly manifest: object }> {
  return inSnapshot(services, project, asked, options, async (db, subjects, found) => {
    let total = 0;
    const tables: Record<string, number> = {};
    for (const table of subjects.tables) {
      const condition = belongsTo(table, found.values);
      tables[table.shown] = 0;
      if (condition === null || found.rows.get(table.shown) === 0) continue;
      const select = sql`SELECT pg_catalog.to_jsonb(found)::pg_catalog.text FROM ${tableName(table)} AS found WHERE ${condition}`;
      await db.run([sql`DECLARE handed_over NO SCROLL CURSOR FOR ${select}`]);
      const head = `{"table":${JSON.stringify(table.shown)},"row":`;
      for (let wanted = 10; ;) {
        const rows = await db.query(sql`FETCH ${trusted(String(wanted))} FROM handed_over`);
        if (rows.length === 0) break;
        const text = rows.map(([row]) => `${head}${row ?? 'null'}}\n`).join('');
        tables[table.shown] = (tables[table.shown] ?? 0) + rows.length;
        total += rows.length;
        await db.pausedFor(write(text));
        const average = Math.ceil(text.length / rows.length);
        wanted = Math.max(1, Math.min(MOST_FETCHED, Math.floor(FETCHED_BYTES / average)));
      }
      await db.run([fixed('CLOSE handed_over')]);
    }
    const identifiers = Object.fromEntries(Array.from(found.values, ([name, values]) => [name, [...values]]));
    const places = options.asWriter ? await placesOf(db, project, subjects, found) : [];
    const [at] = await db.query(
      sql`SELECT pg_catalog.to_char(pg_catalog.timezone('UTC', pg_catalog.now()), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    );
    return {
      rows: total,
      manifest: {
        ...{ project: project.name, kind: subjects.kind, exported_at: at?.[0] ?? null },
        ...{ identifiers, joined: found.joined, tables, rows: total, places },
      },
    };
  });
}

/** No table is begun later than this: the longest ones would not end in time. */
const SEARCH_MS = 30_000;

const SEARCHABLE = /^(text|character|character varying|citext|name|jsonb?|xml)(\[\])?$/;

/** Looks through every text and JSON column of the project for the values, without an index. */
async function search(
  db: QueryRunner,
  project: Project,
  subjects: Subjects,
  found: Found,
): Promise<NonNullable<FindResponse['searched']>> {
  const started = performance.now();
  // In a text, short values mean too many other things; as the whole of it they do not.
  const { all, distinct } = new Traces(subjects, found.values);
  const { tables } = await readSubjectCatalog(db, homeOf(project));
  const results: { table: string; column: string; rows: number }[] = [];
  const late: string[] = [];
  for (const table of tables.values()) {
    if (!/[rpm]/.test(table.kind) || table.isPartition) continue;
    const columns = table.columns.filter(({ type }) => SEARCHABLE.test(type));
    if (columns.length === 0) continue;
    if (performance.now() - started > SEARCH_MS || !table.maySelect) {
      late.push(table.shown);
      continue;
    }
    const counts = columns.map(({ name }) => {
      const text = sql`pg_catalog.lower(${ident(name)}::pg_catalog.text)`;
      return sql`pg_catalog.count(*) FILTER (WHERE ${text} OPERATOR(pg_catalog.=) ANY (${all}::pg_catalog.text[])
        OR EXISTS (SELECT FROM pg_catalog.unnest(${distinct}::pg_catalog.text[]) AS wanted
          WHERE pg_catalog.strpos(${text}, wanted) OPERATOR(pg_catalog.>) 0))`;
    });
    const [row] = await db.query(sql`SELECT ${join(counts)} FROM ${tableName(table)}`);
    columns.forEach(({ name }, i) => {
      const rows = Number(row?.[i]);
      if (rows > 0) results.push({ table: table.shown, column: name, rows });
    });
  }
  return { found: results, not_searched: late };
}

/** What a search may take at most. */
export const SEARCH_TIMEOUT_MS = LIMITS.timeoutMsMax;
