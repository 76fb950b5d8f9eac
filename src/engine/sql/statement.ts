/** One statement of free SQL: it is parsed and described, and its errors get their place in the caller's text. */
import { encodeParameters, type JsonNode } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import type { QueryRunner } from '../../db/query-runner.js';
import {
  callerSql,
  FIRST_NORMAL_OID,
  PostgresError,
  sql,
  type Statement,
  type StatementDescription,
} from '../../pg/index.js';
import { fromPostgres } from '../../tenancy/postgres-errors.js';
import type { SplitStatement } from '../parser/splitter.js';

/** A statement with the values of its parameters. */
export interface BoundStatement extends SplitStatement {
  readonly params: readonly JsonNode[];
}

/** A statement that is parsed and described, and ready to be executed. */
export interface DescribedStatement extends StatementDescription {
  readonly db: QueryRunner;
  readonly text: string;
  /** The parameters as Postgres accepts them. */
  readonly params: readonly (string | null)[];
}

/**
 * Asks Postgres for the columns of a statement and the types of its parameters.
 * @param before statements to run first, in the same round trip
 * @throws PostgresError, ConnectionLost; EngineError invalid_request, invalid_value, as `encodeParameters`
 */
export async function describeStatement(
  db: QueryRunner,
  { text, params: values }: BoundStatement,
  before: readonly Statement[],
): Promise<DescribedStatement> {
  const { text: prepared } = callerSql(text);
  let described = await db.describe(prepared, before);
  const textTypes = await textTypesOf(db, values, described.parameterOids);
  if (textTypes !== null) described = await db.describe(prepared);
  const params = encodeParameters(values, described.parameterOids, textTypes);
  return { db, text, params, ...described };
}

// Looks up types that a project or extension has created, for parameters whose value is a JSON array.

/**
 * Values of pg_type.typcategory: enums, and string types such as citext and domains over text, which accept the JSON
 * text of an array.
 */
const TAKES_TEXT = ['E', 'S'];

/**
 * Names of the types that do not accept a JSON array as such, by oid. The query replaces the last prepared statement.
 * @returns null, without a query, if no value is an array for such a type
 */
async function textTypesOf(
  db: QueryRunner,
  values: readonly JsonNode[],
  oids: readonly number[],
): Promise<ReadonlyMap<number, string> | null> {
  const own = oids.filter((oid, i) => oid >= FIRST_NORMAL_OID && values[i]?.kind === 'array');
  if (own.length === 0) return null;
  const rows = await db.query(
    sql`SELECT t.oid, t.typcategory, pg_catalog.format_type(t.oid, NULL) FROM pg_catalog.pg_type t
        WHERE t.oid OPERATOR(pg_catalog.=) ANY (${`{${own.join(',')}}`}::pg_catalog.oid[])`,
  );
  const textTypes = rows.filter(([, category]) => TAKES_TEXT.includes(category ?? ''));
  return new Map(textTypes.map(([oid, , name]) => [Number(oid), name ?? '']));
}

// Errors of Postgres about a statement, with their place in what the caller sent.

/** The error's context if Postgres cannot read a parameter's value as one of its type. */
const OF_PARAMETER = /^unnamed portal parameter (\$\d+)/;

/** Turns Postgres's position within the statement into one within the caller's whole text, and names a wrong parameter. */
export function locateError(error: unknown, { offset }: Pick<SplitStatement, 'offset'>): unknown {
  // The end of the connection is not an error of the statement.
  if (!(error instanceof PostgresError) || error.isFatal) return error;
  const translated = fromPostgres(error);
  const { position, where = '' } = error.fields;
  const parameter = OF_PARAMETER.exec(where)?.[1];
  // Both count from 1, in code points.
  if (position !== undefined && translated instanceof EngineError && translated.postgres !== undefined) {
    translated.postgres.position = offset + position;
  }
  if (parameter !== undefined && translated instanceof EngineError) {
    translated.hint ??= `This is the value of ${parameter} in "params".`;
  }
  return translated;
}
