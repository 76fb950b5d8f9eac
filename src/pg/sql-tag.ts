/**
 * SQL as text with parameters. The safe way is the shortest: in sql`…${value}…` every value becomes a parameter,
 * `ident()` quotes a name, and a plain string cannot be inserted. Text that is not a constant of this code base enters
 * only through {@link callerSql}.
 */

/** A parameter's value in text format; bytes are in the binary format of its type. */
export type Param = string | Uint8Array | null;

/** A statement and its parameters, for the extended query protocol. */
export interface Statement {
  readonly text: string;
  readonly params: readonly Param[];
}

/** A statement without parameters: a constant of this code base. */
export const fixed = (text: string): Statement => ({ text, params: [] });

export const BEGIN = fixed('BEGIN');
export const COMMIT = fixed('COMMIT');
export const ROLLBACK = fixed('ROLLBACK');

/** A piece of SQL that can run on its own or become part of a larger one. */
class Fragment implements Statement {
  private flat: Statement | null = null;

  constructor(
    readonly strings: readonly string[],
    readonly values: readonly SqlValue[],
  ) {}

  get text(): string {
    return (this.flat ??= flatten(this)).text;
  }

  get params(): readonly Param[] {
    return (this.flat ??= flatten(this)).params;
  }
}

class Raw {
  constructor(readonly text: string) {}
}

export type { Fragment, Raw };
type Scalar = string | number | boolean | bigint | Date | Buffer | null;
type SqlValue = Fragment | Raw | Scalar | readonly Scalar[];

/** Creates a piece of SQL: values become `$n`, fragments and identifiers are inlined. */
export function sql(strings: TemplateStringsArray, ...values: SqlValue[]): Fragment {
  return new Fragment(strings, values);
}

/** A quoted identifier (Postgres manual, Identifiers and Key Words). Only double quotes need to be escaped. */
export function ident(...path: string[]): Raw {
  return new Raw(path.map((name) => `"${name.replaceAll('"', '""')}"`).join('.'));
}

/**
 * A quoted string literal, for statements that take no parameters (COMMENT, CREATE ROLE, ALTER ROLE). Correct for every
 * `standard_conforming_strings`: a backslash switches to the E'' form (Postgres manual, String Constants with C-Style
 * Escapes).
 */
export function literal(value: string): Raw {
  const quoted = value.replaceAll("'", "''");
  return new Raw(value.includes('\\') ? ` E'${quoted.replaceAll('\\', '\\\\')}'` : `'${quoted}'`);
}

export function join(parts: readonly (Fragment | Raw)[], separator = ', '): Fragment {
  const strings = parts.length === 0 ? [''] : ['', ...parts.slice(1).map(() => separator), ''];
  return new Fragment(strings, parts);
}

/** Text from the catalog (a type's name by `format_type`) or from a table of constants in this code base. */
export function trusted(text: string): Raw {
  return new Raw(text);
}

/** The caller's own SQL, from the free SQL endpoint. Only a connection logged in as the project may run it. */
export function callerSql(text: string): Statement {
  return { text, params: [] };
}

/** Numbers the parameters and joins the fragments. */
function flatten(fragment: Fragment): Statement {
  const params: (string | null)[] = [];
  const write = (value: SqlValue): string => {
    if (value instanceof Raw) return value.text;
    if (value instanceof Fragment) return textOf(value);
    params.push(encoded(value));
    return `$${params.length}`;
  };
  const textOf = (piece: Fragment): string =>
    piece.strings
      .map((text, i) => (i < piece.values.length ? text + write(piece.values[i] as SqlValue) : text))
      .join('');
  return { text: textOf(fragment), params };
}

/** A value in Postgres's text format. */
function encoded(value: Scalar | readonly Scalar[]): string | null {
  if (value === null) return null;
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return `\\x${value.toString('hex')}`;
  if (typeof value !== 'object') return String(value);
  return `{${value.map(element).join(',')}}`;
}

/** An element of an array (Postgres manual, Array Value Input). */
function element(value: Scalar): string {
  const text = encoded(value);
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}
