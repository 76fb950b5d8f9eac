/** Why a move failed, as its row and the log may say it. */
import { messageOf } from '../contract/errors.js';
import { PostgresError } from '../pg/index.js';

/**
 * SQLSTATE classes of connection, login, names and server, whose messages contain no values of rows (manual, appendix
 * A).
 */
const TELLABLE = new Set(['08', '28', '3D', '42', '53', '55', '57', '58']);

/** Omits messages that may quote values of a row: the SQLSTATE and the table are enough. */
export function reasonOf(error: unknown): string | undefined {
  if (error === null) return undefined;
  const postgres = postgresErrorOf(error);
  if (postgres === null) return messageOf(error);
  const { sqlstate, message, fields } = postgres;
  // Code of the project can raise any of them with any text; then the error has a context.
  if (TELLABLE.has(sqlstate.slice(0, 2)) && fields.where === undefined) return messageOf(error);
  const table = fields.table === undefined ? '' : ` of the table ${fields.table}`;
  return messageOf(error).replaceAll(message, `Postgres's error ${sqlstate}${table}`);
}

function postgresErrorOf(error: unknown): PostgresError | null {
  for (let one = error; one instanceof Error; one = one.cause) if (one instanceof PostgresError) return one;
  return null;
}
