/**
 * The result of free SQL as a stream without a row cap (contract section 7): rows become NDJSON or CSV bytes as they
 * arrive, in constant memory. If the client reads slowly, so does the service from Postgres.
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
import { runSql, type SqlRequest } from './run-sql.js';
import { rejectOtherEncoding } from './sql-rules.js';
import type { DescribedStatement } from './statement.js';

export type StreamFormat = 'ndjson' | 'csv';

export interface StreamRequest extends SqlRequest {
  format: StreamFormat;
  rowMode: RowMode;
  numbers?: Numbers | undefined;
  /** Whether NDJSON begins with a line that has names and types of the columns. */
  columns: boolean;
}

interface StreamEnd {
  /** Postgres's command tag without its counts. */
  readonly type: string;
  /** Of affected rows if the statement returns none. */
  readonly rowCount: number;
}

/** Where the bytes go. */
interface StreamOutput {
  /**
   * @param chunk to be freed once the bytes have gone out, if they do
   * @returns resolves when the client has read enough for more; undefined: more can be written at once
   */
  write(chunk: OwnedBuffer): Promise<void> | undefined;
}

/** Bytes that are collected before they are written. */
const CHUNK_BYTES = 128 * 1024;

/** The most they become with the rows that go beyond, if these are of common size. */
const MAX_CHUNK_BYTES = 2 * CHUNK_BYTES;

/** More rows than are ever there at once. */
const MANY = 1_000_000;

/**
 * Streams the rows of the last statement; those of earlier ones are dropped.
 * @returns what the last statement did; the transaction is committed by then
 * @throws EngineError see {@link runSql}; nothing was written to `output` if the error came early enough
 */
export async function streamSql(project: Project, request: StreamRequest, output: StreamOutput): Promise<StreamEnd> {
  const collected = new BufferList();
  const checkEncoding = (): void => collected.buffers.forEach(rejectOtherEncoding);
  const writeChunk = (): Promise<void> | undefined => output.write(collected.take());
  const { answer: ends } = await runSql(project, request, async (described) => {
    const { session, columns, params, isLast } = described;
    const { format, rowMode, numbers } = request;
    const encoder = rowEncoder(columns ?? [], format === 'csv' ? 'csv' : 'lines', rowMode, numbers);
    if (isLast && format === 'ndjson' && request.columns) {
      collected.push(Buffer.from(`${JSON.stringify({ columns: describeColumns(columns ?? [], false) })}\n`));
    }
    if (isLast && columns !== null && encoder.header.length > 0) collected.push(encoder.header);
    const backPressure = new BackPressure(described);
    let count = 0;
    const takeRows: RowTaker = (buffer, start, end) => {
      if (!isLast) {
        count++;
        return start + messageSize(buffer, start);
      }
      const rows = encoder.encode(buffer, start, end, MANY, MAX_CHUNK_BYTES - collected.length);
      collected.push(rows.bytes);
      count += rows.count;
      const { length } = collected;
      if (length >= CHUNK_BYTES) {
        checkEncoding();
        backPressure.waitFor(writeChunk());
        backPressure.waitFor(project.throttle(length));
      }
      return rows.end;
    };
    try {
      const tag = await session.fetch(params, encoder.formats, 0, takeRows);
      checkEncoding();
      const { type, count: affected = 0 } = readCommandTag(tag ?? '');
      return { type, rowCount: columns === null ? affected : count };
    } finally {
      backPressure.end();
    }
  });
  if (collected.length > 0) void writeChunk();
  return ends.at(-1) ?? { type: '', rowCount: 0 };
}

/**
 * While the client does not read, or other projects have their turn, nothing is read from Postgres, and the statement's
 * time does not run.
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

  /** The statement has ended; what is still to be written waits in the output. */
  end(): void {
    this.resume();
    this.hasEnded = true;
  }

  /** The session may be another request's once the statement has ended. */
  private resume(): void {
    if (this.hasEnded) return;
    this.described.clock.resume();
    this.described.session.unpause();
  }
}
