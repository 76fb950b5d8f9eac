/** Why a move has ended, in words that are kept. */
import { messageOf } from '../../contract/operator-message.js';
import { PostgresError } from '../../pg/index.js';

/**
 * Classes of errors of the connection, the login, the names and the server, whose messages have no values of rows
 * (manual, appendix A).
 */
const TELLABLE = new Set(['08', '28', '3D', '42', '53', '55', '57', '58']);

/** Without what Postgres says of the values of a row: its SQLSTATE and table say enough. */
export function reasonOf(error: unknown): string | undefined {
  if (error === null) return undefined;
  const postgres = postgresErrorOf(error);
  if (postgres === null) return messageOf(error);
  const { sqlstate, message, fields } = postgres;
  // Code of the project's may raise any of them, with any text; then there is a context.
  if (TELLABLE.has(sqlstate.slice(0, 2)) && fields.where === undefined) return messageOf(error);
  const table = fields.table === undefined ? '' : ` of the table ${fields.table}`;
  return messageOf(error).replaceAll(message, `Postgres's error ${sqlstate}${table}`);
}

function postgresErrorOf(error: unknown): PostgresError | null {
  for (let one = error; one instanceof Error; one = one.cause) if (one instanceof PostgresError) return one;
  return null;
}
