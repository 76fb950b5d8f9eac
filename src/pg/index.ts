/** The one Postgres client of the house. It knows nothing of projects, HTTP, or what rows mean. */
export { addressOfUrl, type LoginOptions, type ServerAddress, startupOptions } from './address.js';
export { readCommandTag } from './command-tag.js';
export { BINARY_HEADER, BINARY_TRAILER } from './copy-in.js';
export { CommitNotReplicated, ConnectionLost, isShutdown, MessageTooLarge, PostgresError } from './errors.js';
export { messageSize, type RowTaker } from './framing.js';
export { Pool } from './pool.js';
export { type Described, type Outcome, type Result, type Row, Session, type Step, withSession } from './session.js';
export * from './sql.js';
export * from './sqlstate.js';
