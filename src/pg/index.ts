/** The one Postgres client of the house. It knows nothing of projects, HTTP, or what rows mean. */
export { addressOfUrl, type LoginOptions, type ServerAddress, startupOptions } from './address.js';
export { readCommandTag } from './command-tag.js';
export { BINARY_HEADER, BINARY_TRAILER } from './copy-in.js';
export {
  CommitNotReplicated,
  ConnectionLost,
  isShutdown,
  MessageTooLarge,
  NoPrimary,
  PostgresError,
} from './errors.js';
export { cancel } from './cancel.js';
export { Framing, messageSize, type RowTaker } from './framing.js';
export type { LoggedIn } from './login.js';
export { MessageScan } from './message-scan.js';
export {
  BACKEND,
  type FieldDescription,
  FRONTEND,
  MESSAGE_HEADER,
  parse,
  readErrorFields,
  simpleQuery,
  TERMINATE,
} from './messages.js';
export { Pool } from './pool.js';
export type { Result, Row } from './answers.js';
export { type Described, type Outcome, Session, type Step, withSession } from './session.js';
export { isOfWorker } from './shard-errors.js';
export * from './server-messages.js';
export * from './sql.js';
export * from './sqlstate.js';
export * from './start-up.js';
