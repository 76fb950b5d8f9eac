/**
 * The result of free SQL as a stream without a row cap (contract section 7): rows become NDJSON or CSV bytes as they
 * arrive, in constant memory. When the client reads slowly, Postgres is held back.
 */
import { readCommandTag } from '../../postgres/command-tag.js';
import { ByteWriter } from '../../postgres/results/byte-writer.js';
import type { ResultColumn } from '../../postgres/results/columns.js';
import { csvRowEncoder, writeCsvHeader } from '../../postgres/results/csv.js';
import type { RowEncoder } from '../../postgres/results/row-encoder.js';
import { jsonRowEncoder, type RowMode } from '../../postgres/results/rows.js';
import { resultFormat } from '../../postgres/results/types.js';
import { messageSize } from '../../postgres/wire/framing.js';
import { ClientDeparture } from '../admission/departure.js';
import type { Project } from '../project.js';
import { type PreparedStatement, refuseOtherEncoding, runStatements, type SqlRequest } from './statements.js';

export type StreamFormat = 'ndjson' | 'csv';

export interface StreamRequest extends SqlRequest {
  format: StreamFormat;
  rowMode: RowMode;
  /** A reader that takes nothing for so long is given up. */
  stallMs: number;
}

/** Where the bytes go. */
interface StreamOutput {
  /**
   * @param free called once the bytes have gone out; where they never do, it is not called
   * @returns false when `onDrain` should be waited for before more is written
   */
  write(bytes: Buffer, free: () => void): boolean;
  /** Calls back once when there is room again. */
  onDrain(listener: () => void): void;
}

/** Bytes that are gathered before they are handed on. */
const CHUNK_BYTES = 128 * 1024;

/** With the rows that go beyond, so that a chunk does not have to grow for rows of common size. */
const ROOM_BYTES = 2 * CHUNK_BYTES;
const newChunk = () => new ByteWriter(ROOM_BYTES);

/** More rows than are ever there at once. */
const MANY = 1_000_000;

/**
 * Streams the rows of the last statement; those of earlier ones are not shown.
 * @returns the number of rows, or of rows affected where none come back; the transaction is committed by then
 * @throws EngineError see {@link runStatements}; nothing was written to `output` where the error came early enough
 */
export async function streamSql(project: Project, request: StreamRequest, output: StreamOutput): Promise<number> {
  // A client that takes nothing any more has as good as left.
  const signal = new ClientDeparture();
  request.signal.addEventListener('abort', () => signal.happen(), { once: true });
  if (request.signal.aborted) signal.happen();
  let out = newChunk();
  const counts = await runStatements(project, { ...request, signal }, async (prepared) => {
    const { session, columns } = prepared;
    const flow = new Flow(project, prepared, output, request.stallMs, signal);
    const encoder = columns === null || !prepared.isLast ? null : rowEncoder(request, columns);
    if (prepared.isLast && columns !== null && request.format === 'csv') writeCsvHeader(columns, out);
    let count = 0;
    try {
      const formats = (columns ?? []).map(({ typeOid }) => resultFormat(typeOid));
      const { tag } = await session.execute(prepared.params, formats, 0, (buffer, start, end) => {
        if (encoder === null) {
          count++;
          return start + messageSize(buffer, start);
        }
        const behind = encoder.take(buffer, start, end, MANY, ROOM_BYTES - out.length, out);
        count += encoder.rows;
        if (out.length >= CHUNK_BYTES) {
          refuseOtherEncoding(out.view());
          flow.write(out);
          out = newChunk();
        }
        return behind;
      });
      refuseOtherEncoding(out.view());
      return columns === null ? (readCommandTag(tag ?? '').count ?? 0) : count;
    } finally {
      flow.end();
    }
  });
  if (out.length > 0) output.write(out.view(), () => out.free());
  return counts.at(-1) ?? 0;
}

const rowEncoder = ({ format, rowMode }: StreamRequest, columns: readonly ResultColumn[]): RowEncoder =>
  format === 'csv' ? csvRowEncoder(columns) : jsonRowEncoder(columns, rowMode, 'line');

/**
 * Back-pressure: Postgres is not read while the client does not take what was written, and the time stands still; nor
 * while it is the turn of other projects.
 */
class Flow {
  private stallTimer: NodeJS.Timeout | undefined;
  private isFull = false;
  private isResting = false;

  constructor(
    private readonly project: Project,
    private readonly prepared: PreparedStatement,
    private readonly output: StreamOutput,
    private readonly stallMs: number,
    private readonly client: ClientDeparture,
  ) {}

  write(chunk: ByteWriter): void {
    const { length } = chunk;
    if (!this.output.write(chunk.view(), () => chunk.free()) && !this.isFull) this.waitForClient();
    const turn = this.isResting ? undefined : this.project.pace(length);
    if (turn !== undefined) void this.rest(turn);
  }

  /** The statement is over; what is still to be written waits in the output. */
  end(): void {
    if (this.isFull) this.drained();
  }

  private waitForClient(): void {
    this.isFull = true;
    this.prepared.session.pause();
    this.prepared.clock.pause();
    this.stallTimer = setTimeout(() => this.client.happen(), this.stallMs);
    this.output.onDrain(() => {
      if (this.isFull) this.drained();
    });
  }

  private drained(): void {
    clearTimeout(this.stallTimer);
    this.isFull = false;
    this.prepared.clock.resume();
    this.goOn();
  }

  private async rest(turn: Promise<void>): Promise<void> {
    this.isResting = true;
    this.prepared.session.pause();
    await turn;
    this.isResting = false;
    this.goOn();
  }

  private goOn(): void {
    if (!this.isFull && !this.isResting) this.prepared.session.unpause();
  }
}
