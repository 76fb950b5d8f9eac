/** Splits the text of pg_dump or pg_restore into entries, and selects those of the project. */
import { tokensOf } from '../../contract/sql-tokens.js';
import type { Placement } from '../../tenancy/placement.js';
import { isOwn } from './toc-entries.js';

export interface DumpEntry {
  /** In capitals, such as `TABLE` or `ACL`. */
  readonly kind: string;
  /** `-` for objects in no schema. */
  readonly schema: string;
  readonly name: string;
  readonly text: string;
}

const BEGINS_ENTRY = '-- Name: ';
const HEADER = /^-- Name: (.*); Type: (.*); Schema: (.*); Owner: .*$/;
const NAME_AND_KIND = /^-- Name: (.*); Type: ([A-Z ]+)$/;

/**
 * An option of each column in Postgres's minor releases since November 2026. Earlier servers do not have it, and it
 * says nothing about the column. pg_dump writes it together with the options that were set.
 */
const COLUMN_VERSION = /(?<=^ALTER (?:FOREIGN )?TABLE ONLY .+ ALTER COLUMN .+ SET \()pg_attver=\d+(?:, )?/gm;

/** A statement that sets no option. */
const SETS_NOTHING = /^ALTER (?:FOREIGN )?TABLE ONLY .+ ALTER COLUMN .+ SET \(\);\n*/gm;

/** The last comment of a dump. */
const COMPLETE = '-- PostgreSQL database dump complete';

/**
 * The entries in the order of the text, of a dump without owners. The text before the first one contains settings of its
 * session.
 * @param schemas with names that may look like a part of a header
 * @throws Error if the text begins an entry in another way than pg_dump 15 to 18
 */
export function entriesOf(dump: string, schemas: readonly string[] = []): DumpEntry[] {
  const shown = schemas.map(asInComment).sort((a, b) => b.length - a.length);
  const starts: { at: number; header: Header }[] = [];
  let end = dump.length;
  for (const { kind, from, to } of tokensOf(dump)) {
    if (kind !== 'comment') continue;
    const comment = dump.slice(from, to);
    const header = headerOf(comment, shown);
    if (header !== null) starts.push({ at: from, header });
    else if (comment.startsWith(BEGINS_ENTRY))
      throw new Error(`pg_dump has written an entry without a kind: ${comment}`);
    if (comment === COMPLETE) end = from;
  }
  return starts.map(({ at, header: [line, name = '', kind = '', schema = ''] }, i) => ({
    kind,
    schema,
    name,
    // An empty comment line ends this header, and another begins the next.
    text: withoutVersions(
      kind,
      dump.slice(at + line.length, starts[i + 1]?.at ?? end).replace(/^\s*--\n|--\s*$/g, ''),
    ).trim(),
  }));
}

/** The comment, a name, a kind and a schema. */
type Header = readonly [string, ...string[]];

/** @param schemas the longest first: one may end like another */
function headerOf(comment: string, schemas: readonly string[]): Header | null {
  for (const schema of schemas) {
    const end = `; Schema: ${schema}; Owner: -`;
    const rest = comment.endsWith(end) ? NAME_AND_KIND.exec(comment.slice(0, -end.length)) : null;
    if (rest !== null) return [comment, rest[1] ?? '', rest[2] ?? '', schema];
  }
  return HEADER.exec(comment) as Header | null;
}

/** Only tables and materialized views have columns. The body of a function must not change. */
const withoutVersions = (kind: string, text: string): string =>
  /TABLE|VIEW/.test(kind) ? cut(cut(text, COLUMN_VERSION), SETS_NOTHING) : text;

/** Removes matches outside of names and constants. */
function cut(text: string, pattern: RegExp): string {
  let masked = '';
  for (const { kind, from, to } of tokensOf(text)) {
    if (kind !== 'string' && kind !== 'quoted') continue;
    masked += text.slice(masked.length, from) + '_'.repeat(to - from);
  }
  masked += text.slice(masked.length);
  let rest = '';
  let end = 0;
  for (const { 0: match, index } of masked.matchAll(pattern)) {
    rest += text.slice(end, index);
    end = index + match.length;
  }
  return rest + text.slice(end);
}

/**
 * The project's part of the schema, without what every new project has.
 * @param own schemas that the writer has created
 */
export function ownEntries(
  entries: readonly DumpEntry[],
  { schema, writer }: Pick<Placement, 'schema' | 'writer'>,
  own: readonly string[],
): DumpEntry[] {
  const schemas = new Set([schema, ...own].map(asInComment));
  return entries.filter(
    (entry) =>
      isOwn({ ...entry, schema: entry.schema === '-' ? null : entry.schema }, schemas, schema) ||
      (entry.kind === 'DEFAULT ACL' && entry.text.startsWith(`ALTER DEFAULT PRIVILEGES FOR ROLE ${writer} `)),
  );
}

/** pg_dump's `sanitize_line`. */
const asInComment = (name: string): string => name.replaceAll(/[\r\n]/g, ' ');
