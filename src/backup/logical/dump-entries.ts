/** Splits the text of pg_dump or pg_restore into entries, and selects those of the project. */
import { tokensOf } from '../../contract/sql-tokens.js';
import { isOwn } from './archive-entries.js';

export interface Entry {
  /** In capitals, such as `TABLE` or `ACL`. */
  readonly kind: string;
  /** `-` for objects in no schema. */
  readonly schema: string;
  readonly name: string;
  readonly text: string;
}

const HEADER = /^-- Name: (.*); Type: (.*); Schema: (.*); Owner: .*$/;

/**
 * An option of each column in Postgres's minor releases since November 2026. Earlier servers do not have it, and it
 * says nothing about the column. pg_dump writes it together with the options that were set.
 */
const COLUMN_VERSION = /(?<=^ALTER (?:FOREIGN )?TABLE ONLY .+ ALTER COLUMN .+ SET \()pg_attver=\d+(?:, )?/gm;

/** A statement that sets no option. */
const SETS_NOTHING = /^ALTER (?:FOREIGN )?TABLE ONLY .+ ALTER COLUMN .+ SET \(\);\n*/gm;

/** The last comment of a dump. */
const COMPLETE = '-- PostgreSQL database dump complete';

/** The entries in the order of the text. The text before the first one contains settings of its session. */
export function entriesOf(dump: string): Entry[] {
  const starts: { at: number; header: RegExpExecArray }[] = [];
  let end = dump.length;
  for (const { kind, from, to } of tokensOf(dump)) {
    if (kind !== 'comment') continue;
    const comment = dump.slice(from, to);
    const header = HEADER.exec(comment);
    if (header !== null) starts.push({ at: from, header });
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
  for (const { 0: found, index } of masked.matchAll(pattern)) {
    rest += text.slice(end, index);
    end = index + found.length;
  }
  return rest + text.slice(end);
}

/**
 * The project's part of the schema, without what every new project has.
 * @param own schemas that the writer has created
 */
export function ownEntries(entries: readonly Entry[], schema: string, own: readonly string[]): Entry[] {
  const schemas = new Set([schema, ...own]);
  return entries.filter((entry) => isOwn(entry.kind, entry.schema, entry.name, schemas, schema));
}
