/** The client for programs: `import { CdpClient } from 'cdp-data-engine/client'`. It needs only `fetch`. */
export {
  type AddColumn,
  type AlterColumn,
  type AlterOptions,
  CdpClient,
  type CreateIndex,
  type CreateTable,
  type ReceiptOptions,
  type TableHandle,
} from './client.js';
export type { RecordSource } from './batches.js';
export { CdpError, type CdpErrorCode, type ClientErrorCode } from './error.js';
export { type RawJson, rawJson } from './json.js';
export type { CallOptions, ReadOptions } from './options.js';
export type { ChangesOptions, ChangesPage, ChangesPageOptions, Snapshot } from './changes.js';
export type { DeleteOptions } from './delete.js';
export type {
  BatchOptions,
  BatchResult,
  InsertOptions,
  InsertProgress,
  InsertResult,
  RefusedRecord,
  StoreOptions,
} from './insert.js';
export type {
  InsertStreamOptions,
  InsertStreamResult,
  InsertTextOptions,
  StreamProgress,
  TextSource,
} from './insert-stream.js';
export type {
  AsText,
  DefaultRow,
  LineOptions,
  QueryOptions,
  QueryResult,
  SqlFragment,
  SqlQuery,
  SqlTag,
  StreamOptions,
} from './sql.js';
export type { ArrayStream, StreamEnd } from './row-stream.js';
export type { DropOptions, QuarantineFilter, ReplayOptions, ReplayResult } from './quarantine.js';
export type { EraseOptions, FindOptions } from './subjects.js';
export type {
  Declaration,
  EraseResponse,
  Erasure,
  FindResponse,
  ProposalResponse,
  SubjectBody,
  SubjectsResponse,
} from '../contract/wire/subjects.js';
export type { Impact } from '../contract/wire/dry-run.js';
export type { ClientOptions } from './transport.js';
export type { RunQueryOptions } from './saved.js';
export type { Member, RunSegmentOptions, Segments } from './segments.js';
export type { Webhooks, WebhookWithSecret } from './webhooks.js';
export type { ColumnType } from '../contract/column-types.js';
export type { ErrorCode, ErrorDetail, PostgresDetails } from '../contract/errors.js';
export type { ValueCount } from '../contract/errors.js';
export type {
  AlterTableResponse,
  AlterTableBody,
  Column,
  ColumnResponse,
  CreateTableResponse,
  DescribedTable,
  DropColumnResponse,
  DropTableResponse,
  Table,
} from '../contract/wire/tables.js';
export type { DistributeBody, Distribution, DistributionResponse } from '../contract/wire/distribution.js';
export type { EventSettings, EventSettingsBody } from '../contract/wire/events.js';
export type { Change, ChangeOperation, FeedBody, FeedState } from '../contract/wire/changes.js';
export type { DropIndexResponse, Index, IndexResponse } from '../contract/wire/indexes.js';
export type { Query, QueryBody, QueryParameter } from '../contract/wire/queries.js';
export type { QuarantinedRecord, QuarantineGroup } from '../contract/wire/quarantine.js';
export type { Receipt } from '../contract/wire/receipts.js';
export type { DetailedRole, DropRoleResponse, Role, TablePrivileges } from '../contract/wire/roles.js';
export type {
  DetailedSchedule,
  RunScheduleResponse,
  Schedule,
  ScheduleBody,
  ScheduleRun,
} from '../contract/wire/schedules.js';
export type { DetailedSegment, Segment, SegmentBody } from '../contract/wire/segments.js';
export type { OwnTokenResponse } from '../contract/wire/tokens.js';
export type {
  ChangeWebhookBody,
  CreateWebhookBody,
  RotateSecretBody,
  Webhook,
  WebhookDelivery,
  WebhookTest,
} from '../contract/wire/webhooks.js';
