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

export interface StreamEnd {
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
  const rows = new RowStream(services, project, request, write);
  const warnings = new WarningCollector();
  let end = { type: '', rowCount: 0 };
  const collect = async (statement: DescribedStatement, isLast: boolean): Promise<void> => {
    end = isLast ? await rows.send(statement) : await rows.drop(statement);
  };
  await runSql(services, project, { ...request, warnings }, collect);
  rows.flush();
  return { ...end, warnings: warnings.all };
}

/** Sends the rows of a statement as they arrive, and reads no faster than they can be sent. */
export class RowStream {
  private readonly collected = new BufferList();

  constructor(
    private readonly services: Pick<SqlServices, 'throttle'>,
    private readonly project: Pick<Project, 'id'>,
    private readonly options: Pick<StreamRequest, 'format' | 'rowMode' | 'numbers' | 'columns'>,
    private readonly write: (chunk: OwnedBuffer) => Promise<void> | undefined,
  ) {}

  /** @param head precedes the rows; default: what the format needs */
  async send(statement: DescribedStatement, head?: Buffer): Promise<Omit<StreamEnd, 'warnings'>> {
    const { collected, services, project } = this;
    const { format, rowMode, numbers } = this.options;
    const { columns } = statement;
    // A statement that Postgres refuses in a transaction runs again, outside.
    collected.take().free();
    const encoder = rowEncoder(columns ?? [], format === 'csv' ? 'csv' : 'lines', rowMode, numbers);
    if (head !== undefined) collected.push(head);
    if (format === 'ndjson' && this.options.columns) {
      collected.push(Buffer.from(`${JSON.stringify({ columns: describeColumns(columns ?? [], false) })}\n`));
    }
    if (columns !== null && encoder.header.length > 0) collected.push(encoder.header);
    let count = 0;
    const keep = (rows: EncodedRows): void => {
      collected.push(rows.bytes);
      count += rows.count;
      if (collected.length < CHUNK_BYTES) return;
      this.checkEncoding();
      reader.pauseUntil(this.write(collected.take()));
      reader.pauseUntil(services.throttle.turn(project.id));
    };
    const reader = new RowReader(statement.db, services.throttle, project.id, {
      takeRows: (buffer, start, stop) => {
        const rows = encoder.encode(buffer, start, stop, MANY, MAX_CHUNK_BYTES - collected.length);
        keep(rows);
        return rows.end;
      },
      takeLongRow: async (message) => keep(await encoder.encodeLong(message)),
    });
    return this.read(statement, encoder.formats, reader, () => count);
  }

  /** Reads the rows, and counts them. */
  drop(statement: DescribedStatement): Promise<Omit<StreamEnd, 'warnings'>> {
    let count = 0;
    const reader = new RowReader(statement.db, this.services.throttle, this.project.id, {
      takeRows: (buffer, start) => {
        count++;
        return start + messageSize(buffer, start);
      },
      takeLongRow: () => {
        count++;
        return Promise.resolve();
      },
    });
    return this.read(statement, [], reader, () => count);
  }

  /** Sends what is left. */
  flush(): void {
    if (this.collected.length > 0) void this.write(this.collected.take());
  }

  private async read(
    { db, columns, params }: DescribedStatement,
    formats: readonly number[],
    reader: RowReader,
    count: () => number,
  ): Promise<Omit<StreamEnd, 'warnings'>> {
    try {
      const tag = await db.fetch(params, formats, 0, reader.takeRows);
      await reader.settled();
      this.checkEncoding();
      const { type, count: affected = 0 } = readCommandTag(tag ?? '');
      return { type, rowCount: columns === null ? affected : count() };
    } finally {
      reader.end();
    }
  }

  private checkEncoding(): void {
    this.collected.buffers.forEach(rejectOtherEncoding);
  }
}
