/**
 * Retries quarantined records, and stores each at most once: a stored record leaves the quarantine in the same
 * transaction.
 */
import { readRecords, type Records } from '../../codec/index.js';
import { counted } from '../../contract/message-text.js';
import { LIMITS } from '../../contract/limits.js';
import type { ReplayBody, ReplayResponse } from '../../contract/wire/quarantine.js';
import { storePartially } from './partial-insert.js';
import type { UpsertRule } from './upsert.js';
import type { Project } from '../project.js';
import { lockToWrite, requireColumns } from '../catalog/find-table.js';
import { typedDeadline } from '../limits/deadline.js';
import { runWrite } from '../write/write.js';
import {
  selectPage,
  PAGE_BYTES,
  purgeExpired,
  readPage,
  removeRecords,
  updateErrors,
  withoutNumber,
} from './quarantine.js';
import { resetIfCodeRuns } from './store-rows.js';

interface ReplayOptions {
  /** JSON values by column name. */
  set: ReadonlyMap<string, string>;
  upsert: UpsertRule | null;
  signal: AbortSignal;
}

/**
 * Retries up to 250 records, the oldest first; fewer if the values in `set` would make them larger than a page.
 * @throws EngineError table_not_found, invalid_request, quota_exceeded, table_busy, query_timeout, outcome_unknown
 */
export async function replay(
  project: Project,
  { table: name, rename = {}, ...filter }: Omit<ReplayBody, 'set'>,
  { set, upsert, signal }: ReplayOptions,
): Promise<ReplayResponse> {
  const added = [...set].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',');
  const fitting = Math.max(1, Math.min(LIMITS.recordsPerBatch, Math.floor(PAGE_BYTES / Buffer.byteLength(added))));
  return runWrite(project, { deadline: typedDeadline(signal) }, async ({ lease, begin, commit }) => {
    const { session } = lease;
    const table = await lockToWrite(session, begin, project.schema, name);
    requireColumns(table, [...Object.values(rename), ...set.keys()]);
    resetIfCodeRuns(lease, table, upsert !== null);
    const { quarantineDays } = project.shared;
    const found = await session.query(selectPage({ ...filter, table: name }, fitting, quarantineDays, true));
    const { records, next } = readPage(found);
    if (records.length === 0) {
      const nothing = replayResponse([], { inserted: 0, updated: 0 }, 0, null);
      return commit([purgeExpired(quarantineDays)], nothing);
    }

    const sent = readAgain(records.map(({ record }) => record));
    const texts = sent.records.map((_, i) => changed(sent, i, rename, { names: set, text: added }));
    const { stored, refused } = await storePartially(session, project, table, readAgain(texts), upsert);

    const idOf = (record: number) => records[record]?.id ?? '';
    const left = [...refused].map(([record, errors]) => ({ id: idOf(record), errors: errors.map(withoutNumber) }));
    const gone = records.filter((_, record) => !refused.has(record)).map(({ id }) => id);
    // Errors found with other names or values are not errors of the stored record.
    const isTrial = Object.keys(rename).length > 0 || set.size > 0;
    const changes = [
      purgeExpired(quarantineDays),
      removeRecords(gone),
      ...(isTrial ? [] : left.map(({ id, errors }) => updateErrors(id, errors))),
    ];
    return commit(changes, replayResponse(left, stored, gone.length, next));
  });
}

const readAgain = (texts: readonly string[]): Records => readRecords(Buffer.from(`[${texts.join(',')}]`), true);

/** A record with renamed columns and replaced values. Anything but an object stays as it is. */
function changed(
  { membersOf, textOf }: Records,
  record: number,
  rename: Readonly<Record<string, string>>,
  added: { names: ReadonlyMap<string, unknown>; text: string },
): string {
  const text = textOf(record);
  if (!text.startsWith('{')) return text;
  const members = membersOf(record)
    .map(([key, json]) => [Object.hasOwn(rename, key) ? (rename[key] ?? key) : key, json] as const)
    .filter(([key]) => !added.names.has(key))
    .map(([key, json]) => `${JSON.stringify(key)}:${json}`);
  return `{${[...members, ...(added.text === '' ? [] : [added.text])].join(',')}}`;
}

function replayResponse(
  left: ReplayResponse['errors'],
  { inserted, updated }: { inserted: number; updated: number },
  gone: number,
  next: string | null,
): ReplayResponse {
  return {
    success: true,
    message: `${counted(gone, 'record')} left the quarantine, ${left.length} refused again`,
    inserted_rows: inserted,
    updated_rows: updated,
    ignored_rows: gone - inserted - updated,
    refused_rows: left.length,
    errors: left.slice(0, LIMITS.errorsListed),
    next,
  };
}
