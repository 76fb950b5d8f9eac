/** The only Postgres client of the code base. It does not depend on projects, HTTP, or the meaning of rows. */
export { addressOfUrl, type LoginOptions, type ServerAddress, startupOptions } from './address.js';
export { cancel } from './cancel.js';
export { readCommandTag } from './command-tag.js';
export {
  CommitNotReplicated,
  ConnectionLost,
  isShutdown,
  MessageTooLarge,
  NoPrimary,
  PostgresError,
} from './errors.js';
export { messageSize, type RowTaker } from './framing.js';
export type { LoggedIn } from './login.js';
export type { FieldDescription } from './messages.js';
export { Pool } from './pool.js';
export { type Described, type Outcome, type Result, type Row, Session, type Step } from './session.js';
export {
  BEGIN,
  callerSql,
  COMMIT,
  fixed,
  type Fragment,
  ident,
  join,
  literal,
  type Raw,
  ROLLBACK,
  sql,
  type Statement,
  trusted,
} from './sql.js';
export { SQLSTATE } from './sqlstate.js';
export { inTransaction } from './transaction.js';
export { withSession } from './with-session.js';
