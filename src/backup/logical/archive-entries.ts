/** Selects the entries of a dump that a restore loads, from the list that `pg_restore --list` prints. */

interface ChosenEntries {
  /** Schemas that the writer had created. pg_restore would not create `public`, so their own entries are left out. */
  readonly ownSchemas: readonly string[];
  /** For pg_restore's `--use-list`. */
  readonly contents: readonly string[];
  /** Entries to be executed afterward as statements, with the names of the roles replaced. */
  readonly statements: readonly string[];
}

/** `3598; 0 0 ACL data TABLE t w_…`: numbers, a kind in capitals, a schema or a dash, a name. */
const ENTRY = /^\d+; \d+ \d+ ([A-Z]+(?: [A-Z]+)*) (\S+) (.*)$/;

const AS_STATEMENTS = new Set(['ACL', 'DEFAULT ACL', 'POLICY', 'MATERIALIZED VIEW DATA']);

/** Large objects belong to the project, although they are in no schema. */
const LARGE_OBJECTS = new Set(['BLOB', 'BLOB METADATA', 'BLOBS']);

/**
 * Chooses the project's part. A new project already has the service's part, except for the responses by Idempotency-Key
 * and the quarantine.
 */
export function chooseEntries(list: string, schema: string, writer: string): ChosenEntries {
  const entries = list.split('\n').map((line) => [line, ...(ENTRY.exec(line) ?? []).slice(1)] as const);
  const ownSchemas = entries.flatMap(([, kind, , name = '']) => {
    const [schema, owner] = name.split(' ');
    return kind === 'SCHEMA' && owner === writer && schema !== undefined ? [schema] : [];
  });
  const schemas = new Set([schema, ...ownSchemas]);
  const chosen = { contents: [] as string[], statements: [] as string[], ownSchemas };
  for (const [line, kind = '', namespace = '', name = ''] of entries) {
    if (!isOwn(kind, namespace, name, schemas, schema)) continue;
    const isStatement = AS_STATEMENTS.has(kind) || (kind === 'COMMENT' && name.startsWith('POLICY '));
    chosen[isStatement ? 'statements' : 'contents'].push(line);
  }
  return chosen;
}

/** @param schema the schema that the service creates, which a new project already has */
export function isOwn(
  kind: string,
  namespace: string,
  name: string,
  schemas: ReadonlySet<string>,
  schema: string,
): boolean {
  if (schemas.has(namespace)) return true;
  if (namespace === '_cdp') return kind === 'TABLE DATA' && /^(?:idempotency_keys|quarantine) /.test(name);
  if (namespace !== '-') return false;
  // A cast belongs to the project if it converts from or to one of its types.
  if (/^(CAST|COMMENT)$/.test(kind) && name.startsWith('CAST (')) {
    return [...name.matchAll(/[( ]([a-z0-9_]+)\./g)].some(([, named = '']) => schemas.has(named));
  }
  if (/^(COMMENT|ACL)$/.test(kind) && name.startsWith('SCHEMA ')) {
    const [, named = ''] = name.split(' ');
    return named !== schema && schemas.has(named);
  }
  return LARGE_OBJECTS.has(kind) || (/^(COMMENT|ACL)$/.test(kind) && name.startsWith('LARGE OBJECT'));
}

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
