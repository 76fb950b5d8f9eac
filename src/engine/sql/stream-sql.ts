/**
 * Streams the result of free SQL without a row cap (contract section 7): rows become NDJSON or CSV as they arrive, in
 * constant memory. If the client reads slowly, the service reads slowly from Postgres.
 */
import {
  BufferList,
  describeColumns,
  type Numbers,
  type OwnedBuffer,
  rowEncoder,
  type RowMode,
} from '../../codec/index.js';
import { messageSize, readCommandTag, type RowTaker } from '../../pg/index.js';
import type { Project } from '../project.js';
import { rejectOtherEncoding } from './client-encoding.js';
import { runSql, type SqlRequest } from './run-sql.js';
import type { DescribedStatement } from './statement.js';

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
  project: Project,
  request: StreamRequest,
  write: (chunk: OwnedBuffer) => Promise<void> | undefined,
): Promise<StreamEnd> {
  const { format, rowMode, numbers } = request;
  const collected = new BufferList();
  const checkEncoding = (): void => collected.buffers.forEach(rejectOtherEncoding);
  let end: StreamEnd = { type: '', rowCount: 0 };
  const take = async (described: DescribedStatement, isLast: boolean): Promise<void> => {
    const { session, columns, params } = described;
    // A statement that Postgres refuses in a transaction runs again, outside.
    if (isLast) collected.take().free();
    const encoder = rowEncoder(columns ?? [], format === 'csv' ? 'csv' : 'lines', rowMode, numbers);
    if (isLast && format === 'ndjson' && request.columns) {
      collected.push(Buffer.from(`${JSON.stringify({ columns: describeColumns(columns ?? [], false) })}\n`));
    }
    if (isLast && columns !== null && encoder.header.length > 0) collected.push(encoder.header);
    const backPressure = new BackPressure(described);
    let count = 0;
    const takeRows: RowTaker = (buffer, start, stop) => {
      if (!isLast) {
        count++;
        return start + messageSize(buffer, start);
      }
      const rows = encoder.encode(buffer, start, stop, MANY, MAX_CHUNK_BYTES - collected.length);
      collected.push(rows.bytes);
      count += rows.count;
      const { length } = collected;
      if (length >= CHUNK_BYTES) {
        checkEncoding();
        backPressure.waitFor(write(collected.take()));
        backPressure.waitFor(project.shared.throttle.pause(project.id, length));
      }
      return rows.end;
    };
    try {
      const tag = await session.fetch(params, encoder.formats, 0, takeRows);
      checkEncoding();
      const { type, count: affected = 0 } = readCommandTag(tag ?? '');
      end = { type, rowCount: columns === null ? affected : count };
    } finally {
      backPressure.end();
    }
  };
  await runSql(project, request, take);
  if (collected.length > 0) void write(collected.take());
  return end;
}

/**
 * Stops reading from Postgres while the client does not read, or while other projects have their turn. That time does
 * not count as time of the statement.
 */
class BackPressure {
  private waits = 0;
  private hasEnded = false;

  constructor(private readonly described: DescribedStatement) {}

  waitFor(ready: Promise<void> | undefined): void {
    if (ready === undefined) return;
    if (this.waits++ === 0) {
      this.described.session.pause();
      this.described.clock.pause();
    }
    void ready.then(() => {
      if (--this.waits === 0) this.resume();
    });
  }

  /** Call this when the statement has ended; the output still holds unsent bytes. */
  end(): void {
    this.resume();
    this.hasEnded = true;
  }

  /** Once the statement has ended, another request may use the session. */
  private resume(): void {
    if (this.hasEnded) return;
    this.described.clock.resume();
    this.described.session.unpause();
  }
}
