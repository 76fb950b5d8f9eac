/** What of an archive of pg_dump a restore takes, told by the list that pg_restore makes of it. Pure text. */

interface ChosenEntries {
  /** What pg_restore restores, as lines for its `--use-list`. */
  readonly contents: readonly string[];
  /**
   * What follows as statements. Rights and policies name roles, which have other names where they are restored. Materialized
   * views are filled when policies are in place, and pg_restore would not fill one that a policy applies to.
   */
  readonly statements: readonly string[];
}

/** `3598; 0 0 ACL data TABLE t w_…`: numbers, a kind in capitals, a schema or a dash, a name. */
const ENTRY = /^\d+; \d+ \d+ ([A-Z]+(?: [A-Z]+)*) (\S+) (.*)$/;

const AS_STATEMENTS = new Set(['ACL', 'DEFAULT ACL', 'POLICY', 'MATERIALIZED VIEW DATA']);

/** What belongs to no schema and yet to the project. */
const LARGE_OBJECTS = new Set(['BLOB', 'BLOB METADATA', 'BLOBS']);

/**
 * The project's own part. The service's schema, extensions and the schemas themselves are there already
 * where a project was made in the normal way; of the service's tables only the answers by Idempotency-Key come along.
 */
export function chooseEntries(list: string, schema: string): ChosenEntries {
  const chosen = { contents: [] as string[], statements: [] as string[] };
  for (const line of list.split('\n')) {
    const [, kind = '', namespace = '', name = ''] = ENTRY.exec(line) ?? [];
    if (!isOwn(kind, namespace, name, schema)) continue;
    const isStatement = AS_STATEMENTS.has(kind) || (kind === 'COMMENT' && name.startsWith('POLICY '));
    chosen[isStatement ? 'statements' : 'contents'].push(line);
  }
  return chosen;
}

function isOwn(kind: string, namespace: string, name: string, schema: string): boolean {
  if (namespace === schema) return true;
  if (namespace === '_cdp') return kind === 'TABLE DATA' && name.startsWith('idempotency_keys ');
  if (namespace !== '-') return false;
  // A cast of the project has one of its own types.
  if (/^(CAST|COMMENT)$/.test(kind) && name.startsWith('CAST (')) return new RegExp(`[( ]${schema}\\.`).test(name);
  return LARGE_OBJECTS.has(kind) || (/^(COMMENT|ACL)$/.test(kind) && name.startsWith('LARGE OBJECT'));
}

/** A line that opens an entry in the text that pg_restore writes, and the one that ends it all. */
const HEADER = /^--\n-- (?:Name: .*; Type: (.*); Schema: .*|PostgreSQL database dump complete)\n--\n/m;

export interface ArchiveStatement {
  readonly text: string;
  /** It only gives or takes rights, or says to whom they apply. */
  readonly isRight: boolean;
}

/**
 * The statements that pg_restore writes out for entries, in its order, with the names of the roles that the archive was made
 * with replaced.
 */
export function statementsIn(script: string, roles: ReadonlyMap<string, string>): ArchiveStatement[] {
  const [, ...parts] = script.split(HEADER);
  const statements: ArchiveStatement[] = [];
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const [kind, part = ''] = [parts[i], parts[i + 1]];
    if (kind === undefined) continue;
    // One grant may name a role that is not here; the others of the entry hold without it.
    const texts = kind.endsWith('ACL') ? part.split(/(?<=;)\n/) : [part];
    const isRight = kind !== 'MATERIALIZED VIEW DATA';
    for (const text of texts) statements.push({ text: renamed(text.trim(), roles), isRight });
  }
  return statements.filter(({ text }) => text !== '');
}

/** As pg_dump writes the name of a role: after one of these words, or after another role. */
const renamed = (text: string, roles: ReadonlyMap<string, string>): string =>
  [...roles].reduce(
    (result, [from, to]) =>
      from === to
        ? result
        : result.replaceAll(new RegExp(`(?<=\\b(?:TO|FROM|ROLE|BY) (?:\\w+, )*)${from}\\b`, 'g'), to),
    text,
  );

/** What pg_dump writes into every archive for the session that restores it (55 bytes), and what we put in its place. */
const NO_PATH = "SELECT pg_catalog.set_config('search_path', '', false);";

/**
 * Gives the restoring session the search path that the project's code was written for: a function in a CHECK or an index may
 * name its tables without their schema, and would not find them. pg_restore takes the statement from the archive and
 * offers no other way (archiver: processSearchPathEntry). The length stays, so every offset does.
 * @param start of the archive, at least 4 KiB of it or all
 */
export function withSearchPath(start: Buffer, path: string): Buffer {
  const at = start.indexOf(NO_PATH);
  const statement = `SET search_path = ${path};`;
  if (at === -1 || statement.length > NO_PATH.length) return start;
  const patched = Buffer.from(start);
  patched.write(statement.padEnd(NO_PATH.length), at, 'latin1');
  return patched;
}
