/**
 * Streams the result of free SQL without a row cap (contract C14.9): rows become NDJSON or CSV as they arrive, in
 * constant memory. If the client reads slowly, the service reads slowly from Postgres.
 */
import {
  BufferList,
  describeColumns,
  type EncodedRows,
  type Numbers,
  type OwnedBuffer,
  rowEncoder,
  type RowMode,
} from '../../codec/index.js';
import { messageSize, readCommandTag } from '../../pg/index.js';
import type { Warning } from '../../contract/wire/sql.js';
import type { Project } from '../../db/project.js';
import { RowReader } from './row-reader.js';
import { rejectOtherEncoding } from './client-encoding.js';
import type { DescribedStatement } from './statement.js';
import { WarningCollector } from './warning-collector.js';
import { runSql, type SqlRequest, type SqlServices } from './run-sql.js';

export type StreamFormat = 'ndjson' | 'csv';

export interface StreamRequest extends SqlRequest {
  format: StreamFormat;
  rowMode: RowMode;
  numbers?: Numbers | undefined;
  /** Whether NDJSON begins with a line of column names and types. */
  columns: boolean;
}

interface StreamEnd {
  /** Postgres's command tag without its counts. */
  readonly type: string;
  /** Affected rows if the statement returns none. */
  readonly rowCount: number;
  readonly warnings: readonly Warning[];
}

/** Bytes to collect before a write. */
const CHUNK_BYTES = 128 * 1024;

/** Room for a chunk with the rows that exceed it, if they have a common size. */
const MAX_CHUNK_BYTES = 2 * CHUNK_BYTES;

/** More rows than are ever available at once. */
const MANY = 1_000_000;

/**
 * Streams the rows of the last statement; those of earlier ones are dropped.
 * @param write sends a chunk, and frees it after that. Resolves when more may be written; undefined: at once
 * @returns what the last statement did; the transaction is committed by then
 * @throws EngineError see {@link runSql}; nothing was written if the error came early enough
 */
export async function streamSql(
  services: SqlServices,
  project: Project,
  request: StreamRequest,
  write: (chunk: OwnedBuffer) => Promise<void> | undefined,
): Promise<StreamEnd> {
  const { format, rowMode, numbers } = request;
  const collected = new BufferList();
  const checkEncoding = (): void => collected.buffers.forEach(rejectOtherEncoding);
  const warnings = new WarningCollector();
  let end = { type: '', rowCount: 0 };
  const collect = async (statement: DescribedStatement, isLast: boolean): Promise<void> => {
    const { db, columns, params } = statement;
    // A statement that Postgres refuses in a transaction runs again, outside.
    if (isLast) collected.take().free();
    const encoder = rowEncoder(columns ?? [], format === 'csv' ? 'csv' : 'lines', rowMode, numbers);
    if (isLast && format === 'ndjson' && request.columns) {
      collected.push(Buffer.from(`${JSON.stringify({ columns: describeColumns(columns ?? [], false) })}\n`));
    }
    if (isLast && columns !== null && encoder.header.length > 0) collected.push(encoder.header);
    let count = 0;
    const keep = (rows: EncodedRows): void => {
      collected.push(rows.bytes);
      count += rows.count;
      if (collected.length < CHUNK_BYTES) return;
      checkEncoding();
      reader.pauseUntil(write(collected.take()));
      reader.pauseUntil(services.throttle.turn(project.id));
    };
    const reader = new RowReader(db, services.throttle, project.id, {
      takeRows: (buffer, start, stop) => {
        if (!isLast) {
          count++;
          return start + messageSize(buffer, start);
        }
        const rows = encoder.encode(buffer, start, stop, MANY, MAX_CHUNK_BYTES - collected.length);
        keep(rows);
        return rows.end;
      },
      takeLongRow: async (message) => {
        if (isLast) keep(await encoder.encodeLong(message));
        else count++;
      },
    });
    try {
      const tag = await db.fetch(params, encoder.formats, 0, reader.takeRows);
      await reader.settled();
      checkEncoding();
      const { type, count: affected = 0 } = readCommandTag(tag ?? '');
      end = { type, rowCount: columns === null ? affected : count };
    } finally {
      reader.end();
    }
  };
  await runSql(services, project, { ...request, warnings }, collect);
  if (collected.length > 0) void write(collected.take());
  return { ...end, warnings: warnings.all };
}
