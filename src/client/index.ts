/** The client for programs: `import { CdpClient } from 'cdp-data-engine/client'`. It needs only `fetch`. */
export {
  type AddColumn,
  type AlterColumn,
  type CallOptions,
  CdpClient,
  type CreateTable,
  type TableHandle,
} from './client.js';
export type { RecordSource } from './batches.js';
export { CdpError, type CdpErrorCode, type ClientErrorCode } from './error.js';
export { type RawJson, rawJson } from './json.js';
export type {
  BatchOptions,
  BatchResult,
  InsertOptions,
  InsertProgress,
  InsertResult,
  RefusedRecord,
} from './insert.js';
export type { DefaultRow, QueryOptions, QueryResult, SqlFragment, SqlQuery, SqlTag, StreamOptions } from './sql.js';
export type { ClientOptions } from './transport.js';
export type { ColumnType } from '../contract/column-types.js';
export type { ErrorCode, ErrorPlace, PostgresDetails } from '../contract/errors.js';
export type {
  Column,
  ColumnAnswer,
  CreateTableAnswer,
  DropColumnAnswer,
  DropTableAnswer,
  Table,
} from '../contract/wire/tables.js';
export type { OwnTokenAnswer } from '../contract/wire/projects.js';
