/** What a stream has stored, and the answer that says so. */
import { counted } from '../../../contract/message-text.js';
import { type Static, Type } from '../../../contract/schema.js';
import type { BatchResponse } from '../../../contract/wire/batch.js';
import { upsertMessage } from '../batch.js';
import type { InsertRequest } from '../insert.js';

/** What a stream has stored. */
export const Counts = Type.Object({
  /** All records, wherever they are. */
  records: Type.Integer(),
  inserted: Type.Integer(),
  updated: Type.Integer(),
  ignored: Type.Integer(),
  /** Streams of earlier versions lack it. */
  unchanged: Type.Optional(Type.Integer()),
  quarantined: Type.Integer(),
  chunks: Type.Integer(),
});
export type Counts = Static<typeof Counts>;

export const NOTHING: Counts = { records: 0, inserted: 0, updated: 0, ignored: 0, quarantined: 0, chunks: 0 };

export const rowsOf = ({ inserted, updated }: Counts): number => inserted + updated;

type CountsOfChunk = Pick<
  BatchResponse,
  'inserted_rows' | 'updated_rows' | 'ignored_rows' | 'unchanged_rows' | 'quarantined_rows'
>;

export function added(counts: Counts, response: CountsOfChunk, records: number): Counts {
  const { inserted_rows, updated_rows = 0, ignored_rows = 0, unchanged_rows = 0, quarantined_rows = 0 } = response;
  return {
    records: counts.records + records,
    inserted: counts.inserted + inserted_rows,
    updated: counts.updated + updated_rows,
    ignored: counts.ignored + ignored_rows,
    unchanged: (counts.unchanged ?? 0) + unchanged_rows,
    quarantined: counts.quarantined + quarantined_rows,
    chunks: counts.chunks + (records > 0 ? 1 : 0),
  };
}

/** @param bytes of the decoded body */
export function streamResponse(
  { inserted, updated, ignored, unchanged = 0, quarantined, chunks }: Counts,
  bytes: number,
  { upsert, quarantine }: Pick<InsertRequest, 'upsert' | 'quarantine'>,
): BatchResponse {
  const ofUpsert = upsert !== null && {
    updated_rows: updated,
    ignored_rows: ignored,
    ...(upsert.skipsUnchanged && { unchanged_rows: unchanged }),
  };
  const rows = { inserted_rows: inserted, ...ofUpsert };
  const message = [
    ofUpsert ? upsertMessage(rows) : `${counted(inserted, 'record')} inserted`,
    ...(quarantined > 0 ? [`${quarantined} quarantined`] : []),
  ].join(', ');
  return {
    success: true,
    ...rows,
    ...(quarantine ? { quarantined_rows: quarantined } : {}),
    chunks,
    bytes,
    message,
  };
}
