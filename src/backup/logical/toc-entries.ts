/** Selects the entries of a dump that a restore loads. */
import { BadBackup } from '../tar.js';
import type { TocEntry } from './dump-toc.js';

interface ChosenEntries {
  /** Schemas that the writer had created. pg_restore would not create `public`, so their own entries are left out. */
  readonly ownSchemas: readonly string[];
  /** For pg_restore. */
  readonly contents: readonly TocEntry[];
  /** Rights and policies: they name roles, which have other names here. */
  readonly access: readonly TocEntry[];
  /** What needs the policies: their comments, and materialized views, which are filled under them. */
  readonly last: readonly TocEntry[];
  /** What the writer owns outside of its schemas, as messages. */
  readonly leftOut: readonly string[];
}

/** Large objects belong to the project, although they are in no schema. */
const LARGE_OBJECTS = new Set(['BLOB', 'BLOB METADATA', 'BLOBS']);

/** Kinds in no schema that belong to the database or the server, if the writer does not own them. */
const OF_SERVER = new Set([
  ...['DATABASE', 'DATABASE PROPERTIES', 'ENCODING', 'STDSTRINGS', 'SEARCHPATH', 'SCHEMA', 'EXTENSION'],
  ...['PROCEDURAL LANGUAGE', 'TRANSFORM', 'CAST', 'ACCESS METHOD', 'EVENT TRIGGER', 'SECURITY LABEL', 'COMMENT'],
  ...['FOREIGN DATA WRAPPER', 'SERVER', 'USER MAPPING', 'PUBLICATION', 'PUBLICATION TABLES IN SCHEMA', 'SUBSCRIPTION'],
]);

/**
 * Chooses the project's part. A new project already has the service's part, except for the responses by Idempotency-Key
 * and the quarantine.
 * @throws BadBackup if an entry may be the project's, and is of a kind that is not known here
 */
export function chooseEntries(entries: readonly TocEntry[], schema: string, writer: string): ChosenEntries {
  const belongsToWriter = ({ owner }: TocEntry): boolean => owner === writer;
  const ownSchemas = entries
    .filter((entry) => entry.kind === 'SCHEMA' && belongsToWriter(entry))
    .map(({ name }) => name);
  const schemas = new Set([schema, ...ownSchemas]);
  const chosen = { contents: [], access: [], last: [] } as Record<'contents' | 'access' | 'last', TocEntry[]>;
  const leftOut: string[] = [];
  for (const entry of entries) {
    const { kind } = entry;
    const access = isAccessEntry(entry);
    if (isChosen(entry, schemas, schema, belongsToWriter(entry))) {
      chosen[isFilledLast(entry) ? 'last' : access ? 'access' : 'contents'].push(entry);
    } else if (entry.schema === null && !OF_SERVER.has(kind) && !access) {
      throw new BadBackup(`Its dump contains a ${kind}, which this program does not know: use a newer one`);
    } else if (belongsToWriter(entry) && kind !== 'SCHEMA' && entry.schema !== '_cdp') {
      leftOut.push(`${kind} ${entry.schema === null ? '' : `${entry.schema}.`}${entry.name}`);
    }
  }
  return { ownSchemas, ...chosen, leftOut };
}

/** Default privileges belong to the role that creates objects, and may be outside of schemas. */
const isChosen = (entry: TocEntry, schemas: ReadonlySet<string>, schema: string, belongsToWriter: boolean): boolean =>
  entry.kind === 'DEFAULT ACL'
    ? belongsToWriter && (entry.schema === null || schemas.has(entry.schema))
    : isOwn(entry, schemas, schema);

/** Policies and rights: they name roles, which have other names on another server. */
export const isAccessEntry = ({ kind }: Pick<TocEntry, 'kind'>): boolean =>
  ['ACL', 'DEFAULT ACL', 'POLICY'].includes(kind);

/** What needs the policies: their comments, and materialized views, which are filled under them. */
export const isFilledLast = ({ kind, name }: Pick<TocEntry, 'kind' | 'name'>): boolean =>
  kind === 'MATERIALIZED VIEW DATA' || (kind === 'COMMENT' && name.startsWith('POLICY '));

/**
 * Whether an entry is the project's; not for default privileges.
 * @param schemas of the project
 * @param schema the one of them that the service creates, which a new project already has
 */
export function isOwn(
  { kind, schema: namespace, name }: Pick<TocEntry, 'kind' | 'schema' | 'name'>,
  schemas: ReadonlySet<string>,
  schema: string,
): boolean {
  if (namespace !== null && schemas.has(namespace)) return true;
  if (namespace === '_cdp')
    return kind === 'TABLE DATA' && /^(?:idempotency_keys|quarantined?|stream_chunks|erasures)$/.test(name);
  if (namespace !== null) return false;
  // A cast belongs to the project if it converts from or to one of its types.
  if (/^(CAST|COMMENT)$/.test(kind) && name.startsWith('CAST (')) {
    return [...name.matchAll(/"(?:[^"]|"")+"(?=\.)|[a-z0-9_]+(?=\.)/g)].some(([part]) => schemas.has(unquoted(part)));
  }
  if (/^(COMMENT|ACL)$/.test(kind) && name.startsWith('SCHEMA ')) {
    const schemaName = unquoted(name.slice('SCHEMA '.length));
    return schemaName !== schema && schemas.has(schemaName);
  }
  return LARGE_OBJECTS.has(kind) || (/^(COMMENT|ACL)$/.test(kind) && name.startsWith('LARGE OBJECT'));
}

/** A name as `quote_ident` writes it. */
const unquoted = (name: string): string => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name);

/** What pg_dump writes into every archive for the session that restores it. */
const NO_PATH = "SELECT pg_catalog.set_config('search_path', '', false);";

/**
 * Replaces that statement by the search path for which the project's code was written: a function in a CHECK or an
 * index may name tables without their schema. pg_restore has no option for this, and executes the statement whatever
 * `--use-list` contains. Offsets do not change.
 * @param start the beginning of the archive, with its first entries
 * @throws Error if pg_dump has written a different statement
 */
export function setSearchPath(start: Buffer, path: string): Buffer {
  const at = start.indexOf(NO_PATH);
  const statement = `SET search_path = ${path};`;
  if (at === -1 || statement.length > NO_PATH.length) {
    throw new Error('The dump does not set search_path as pg_dump 15 to 18 do. Make the backup with one of these');
  }
  const result = Buffer.from(start);
  result.write(statement.padEnd(NO_PATH.length), at, 'latin1');
  return result;
}
