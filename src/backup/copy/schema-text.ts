/**
 * The text that pg_dump writes of a schema: its entries, each with what it is about, and those of them that are the
 * project's.
 */
import { tokensOf } from '../../contract/sql-tokens.js';
import { isOwn } from '../logical/archive-entries.js';

export interface Entry {
  /** In capitals: `TABLE`, `ACL`. */
  readonly kind: string;
  /** Of the schema `-` are things that are in none. */
  readonly schema: string;
  readonly name: string;
  readonly text: string;
}

const HEADER = /^-- Name: (.*); Type: (.*); Schema: (.*); Owner: .*$/;

/**
 * What minor releases of Postgres since November 2026 keep among the options of each column. An older server does not
 * know it, and it says nothing of the column. In a statement of its own, with the options that were set.
 */
const COLUMN_VERSION = /(?<=^ALTER (?:FOREIGN )?TABLE ONLY .+ ALTER COLUMN .+ SET \()pg_attver=\d+(?:, )?/gm;

/** Sets no option. */
const SETS_NOTHING = /^ALTER (?:FOREIGN )?TABLE ONLY .+ ALTER COLUMN .+ SET \(\);\n*/gm;

/** The last comment of a dump. */
const COMPLETE = '-- PostgreSQL database dump complete';

/** In pg_dump's order. What stands before the first are settings of its session. */
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
    // An empty comment ends this header, and another one begins the next.
    text: withoutVersions(
      kind,
      dump.slice(at + line.length, starts[i + 1]?.at ?? end).replace(/^\s*--\n|--\s*$/g, ''),
    ).trim(),
  }));
}

/** Tables and materialized views have columns; a function's body is left as it is. */
const withoutVersions = (kind: string, text: string): string =>
  /TABLE|VIEW/.test(kind) ? cut(cut(text, COLUMN_VERSION), SETS_NOTHING) : text;

/** Cuts what matches outside of names and constants. */
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
 * The project's own part: what a new project has by itself is left out.
 * @param own schemas that the writer has made
 */
export function ownEntries(entries: readonly Entry[], schema: string, own: readonly string[]): Entry[] {
  const schemas = new Set([schema, ...own]);
  return entries.filter((entry) => isOwn(entry.kind, entry.schema, entry.name, schemas, schema));
}

/** Rights, and policies that name roles: those of roles that the target does not have are left out. */
export const isRight = ({ kind }: Entry): boolean => kind.endsWith('ACL') || kind === 'POLICY';
