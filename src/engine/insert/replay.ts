/**
 * Retries quarantined records, and stores each at most once: a stored record leaves the quarantine in the same
 * transaction.
 */
import { counted } from '../../contract/message-text.js';
import { LIMITS } from '../../contract/limits.js';
import type { ReplayBody, ReplayResponse } from '../../contract/wire/quarantine.js';
import { sql } from '../../pg/index.js';
import { storePartially } from './partial-insert.js';
import { countsOfLeft, type UpsertRule } from './upsert.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import { areNone, type Corrections, correctedRecords, evaluated, requirePossible } from './corrections.js';
import { lockToWrite } from '../catalog/find-table.js';
import {
  lockPage,
  mayRead,
  PAGE_BYTES,
  purgeExpired,
  readPage,
  deleteQuarantined,
  updateErrors,
  withoutNumber,
} from './quarantine.js';
import { unknownKeys, type UnknownRule } from './unknown-fields.js';
import { resetIfCodeRuns } from './store-rows.js';
import type { ProjectRole } from '../../tenancy/placement.js';

interface ReplayOptions {
  corrections: Corrections;
  upsert: UpsertRule | null;
  unknown: UnknownRule | undefined;
  quarantineDays: number;
  /** Who sees the errors, which quote values of the records; null: nobody. */
  errorsFor: ProjectRole | null;
  throttle: EventLoopThrottle;
  signal: AbortSignal;
}

/**
 * Retries up to 250 records, the oldest first; fewer if the values in `set` would make them larger than a page.
 * @throws EngineError table_not_found, invalid_request, quota_exceeded, table_busy, query_timeout, outcome_unknown
 */
export async function replay(
  project: Project,
  { table: tableName, ...filter }: Pick<ReplayBody, 'table' | 'error' | 'column' | 'since' | 'until' | 'id' | 'after'>,
  { corrections, upsert, unknown, quarantineDays, errorsFor, throttle, signal }: ReplayOptions,
): Promise<ReplayResponse> {
  const { set } = corrections;
  const added = [...set].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',');
  const fitting = Math.max(1, Math.min(LIMITS.recordsPerBatch, Math.floor(PAGE_BYTES / Buffer.byteLength(added))));
  const { response } = await project.write({ signal }, async (db) => {
    const table = await lockToWrite(db, project.schema, tableName);
    requirePossible(corrections, table);
    unknownKeys(unknown, table);
    resetIfCodeRuns(db, table, upsert !== null);
    const rows = await db.query(lockPage({ ...filter, table: tableName }, fitting, quarantineDays));
    const { records, next } = readPage(rows);
    if (records.length === 0) {
      const nothing = replayResponse([], { inserted: 0, updated: 0 }, 0, null, upsert);
      return planCommit(nothing, [purgeExpired(quarantineDays)]);
    }

    const texts = records.map(({ record }) => record);
    const values = await evaluated(db, corrections, corrections.record === null ? texts : [corrections.record]);
    const batch = await throttle.runSteps(project.id, correctedRecords(texts, corrections, values));
    const { stored, refused } = await storePartially(db, project, table, batch, { upsert, unknown, throttle });

    const idOf = (record: number) => records[record]?.id ?? '';
    const stillRefused = [...refused].map(([record, errors]) => ({
      id: idOf(record),
      errors: errors.map(withoutNumber),
    }));
    const storedIds = records.filter((_, record) => !refused.has(record)).map(({ id }) => id);
    // Errors found with other names or values are not errors of the stored record.
    const isTrial = !areNone(corrections);
    const changes = [
      purgeExpired(quarantineDays),
      deleteQuarantined(storedIds),
      ...(isTrial ? [] : stillRefused.map(({ id, errors }) => updateErrors(id, errors))),
    ];
    const isSeen = errorsFor === 'writer' || (errorsFor === 'reader' && (await readerMayRead(db, project, tableName)));
    const response = replayResponse(stillRefused, stored, storedIds.length, next, upsert);
    return planCommit(isSeen ? response : { ...response, errors: [] }, changes);
  });
  return response;
}

async function readerMayRead(db: QueryRunner, project: Project, tableName: string): Promise<boolean> {
  const [row] = await db.query(sql`SELECT ${mayRead(project, sql`${tableName}`)}`);
  return row?.[0] === 't';
}

function replayResponse(
  stillRefused: ReplayResponse['errors'],
  { inserted, updated }: { inserted: number; updated: number },
  storedCount: number,
  next: string | null,
  upsert: UpsertRule | null,
): ReplayResponse {
  const left = storedCount - inserted - updated;
  return {
    success: true,
    message: `${counted(storedCount, 'record')} left the quarantine, ${stillRefused.length} refused again`,
    inserted_rows: inserted,
    updated_rows: updated,
    ...(upsert === null ? { ignored_rows: left } : countsOfLeft(upsert, left)),
    refused_rows: stillRefused.length,
    errors: stillRefused.slice(0, LIMITS.errorsListed),
    next,
  };
}
