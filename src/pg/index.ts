/** The only Postgres client of the code base. It does not depend on projects, HTTP, or the meaning of rows. */
export { addressOfUrl, type LoginOptions, type ServerAddress, startupOptions } from './address.js';
export { cancel, CANCEL_MS } from './cancel.js';
export { copyLine } from './copy-text.js';
export {
  CommitNotReplicated,
  ConnectionLost,
  isShutdown,
  MessageTooLarge,
  NoPrimary,
  PostgresError,
  ResponseTimeout,
} from './errors.js';
export { messageSize, type RowHandler } from './framing.js';
export type { LoggedIn } from './handshake.js';
export { type FieldDescription, FIRST_NORMAL_OID, readCommandTag } from './messages.js';
export {
  type Begin,
  type Bounds,
  type Change,
  NULL,
  readMessage,
  readRowChange,
  type Relation,
  UNCHANGED,
  type Values,
} from './pgoutput.js';
export { Pool } from './pool.js';
export { lsnOf, lsnText, type ReplicationReader, ReplicationStream } from './replication.js';
export {
  type StatementDescription,
  type Outcome,
  type PipelineOptions,
  type Result,
  type Row,
  Session,
  type Step,
} from './session.js';
export { visibleIn } from './snapshot.js';
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
} from './sql-tag.js';
export { SQLSTATE } from './errors.js';

export { inTransaction, withSession } from './with-session.js';
