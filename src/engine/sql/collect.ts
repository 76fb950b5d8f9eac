/**
 * Results of free SQL as one answer: rows become JSON bytes as they arrive, and what is past the caps is left in
 * Postgres (contract section 7).
 */
import { LIMITS } from '../../contract/limits.js';
import { readCommandTag } from '../../postgres/command-tag.js';
import { outputNames, type ResultColumn, typeName } from '../../postgres/results/columns.js';
import { RowBytes } from '../../postgres/results/row-bytes.js';
import { jsonRowEncoder, type RowMode } from '../../postgres/results/rows.js';
import { resultFormat } from '../../postgres/results/types.js';
import { sql, statement } from '../../postgres/sql.js';
import { MessageTooLarge, type RowSink, type Session } from '../../postgres/wire/session.js';
import type { Project } from '../project.js';
import { mainKeyword } from './main-keyword.js';
import { type PreparedStatement, refuseOtherEncoding, runStatements, type SqlRequest } from './statements.js';

export interface SqlResult {
  /** Postgres's command tag without its counts. */
  type: string;
  columns: { name: string; type: string }[];
  /** The rows as JSON, with commas between them. Whoever has sent them frees them. */
  rows: RowBytes;
  /** Rows here, or rows affected where none come back. */
  rowCount: number;
  /** For INSERT, UPDATE, DELETE and MERGE. */
  affectedRows: number | undefined;
  truncated: boolean;
}

export interface CollectRequest extends SqlRequest {
  maxRows: number;
  rowMode: RowMode;
}

/** Rows of the first step: enough to learn how long a row is. */
const FIRST_STEP = 16;

/**
 * A step is at most this many times all rows before it, and at most so long. Rows may get longer on the way; then what a
 * step has beyond the caps was fetched in vain.
 */
const STEP_GROWTH = 4;
const LONGEST_STEP = 2_000;

/** @throws EngineError see {@link runStatements}; result_too_large */
export function collectSql(project: Project, request: CollectRequest): Promise<SqlResult[]> {
  let bytesLeft = LIMITS.resultBytes;
  return runStatements(project, request, async (prepared) => {
    const result = await collect(project, prepared, request, bytesLeft);
    bytesLeft -= result.rows.length;
    return result;
  });
}

async function collect(
  project: Project,
  prepared: PreparedStatement,
  { maxRows, rowMode }: CollectRequest,
  maxBytes: number,
): Promise<SqlResult> {
  const { session, columns } = prepared;
  const rows = new RowCollector(columns ?? [], rowMode, maxRows, maxBytes);
  const tag = await fetch(project, prepared, rows, maxRows);
  refuseOtherEncoding(rows.bytes.view());
  const { type, count } = readCommandTag(tag ?? mainKeyword(prepared.text));
  return {
    type,
    columns: columns === null ? [] : await describeColumns(session, columns),
    rows: rows.bytes,
    rowCount: columns === null ? (count ?? 0) : rows.count,
    // The tag counts the rows of the last step alone.
    affectedRows: MODIFYING.has(type) ? (columns === null ? count : rows.seen) : undefined,
    truncated: rows.truncated,
  };
}

/** @returns the command tag, or null where the rows were cut off before the statement ended */
async function fetch(
  project: Project,
  prepared: PreparedStatement,
  rows: RowCollector,
  maxRows: number,
): Promise<string | null> {
  const { session, clock, columns, params, inTransaction, text } = prepared;
  const formats = (columns ?? []).map(({ typeOid }) => resultFormat(typeOid));
  // Without a transaction around it the portal ends with its first step.
  const step = inTransaction && columns !== null ? Math.min(FIRST_STEP, maxRows) : 0;
  let { tag } = await session.execute(params, formats, step, rows.sink);
  while (tag === null && !rows.truncated) {
    const turn = project.pace(rows.newBytes());
    if (turn !== undefined) {
      // The time of the statement is not spent on what others do.
      clock.pause();
      await turn;
      clock.resume();
    }
    // A full answer is followed by one more row, which only tells whether there is one.
    ({ tag } = await session.resume(Math.max(1, rows.expectedRoom()), rows.sink));
  }
  // INSERT … RETURNING and the like have made all rows already, and EXECUTE may stand for one of them. What it was, and
  // how many rows there are, shows at the end.
  const keyword = mainKeyword(text);
  if (tag === null && (MODIFYING.has(keyword) || keyword === 'EXECUTE')) {
    ({ tag } = await session.resume(0, rows.sink));
  }
  return tag;
}

/** Encodes rows until a cap is reached, then only notes that there was more. */
class RowCollector {
  /** Rows kept. */
  count = 0;
  /** All rows that came. */
  seen = 0;
  truncated = false;
  readonly bytes = new RowBytes();
  private told = 0;
  private readonly encode: ReturnType<typeof jsonRowEncoder>;

  constructor(
    columns: readonly ResultColumn[],
    mode: RowMode,
    private readonly maxRows: number,
    private readonly maxBytes: number,
  ) {
    this.encode = jsonRowEncoder(columns, mode);
  }

  readonly sink: RowSink = (buffer, start, end) => {
    this.seen++;
    if (this.truncated) return;
    if (this.count >= this.maxRows) {
      this.truncated = true;
      return;
    }
    const { bytes } = this;
    const before = bytes.length;
    if (before > 0) bytes.writer.byte(COMMA);
    this.encode(buffer, start, end, bytes.writer);
    if (bytes.length > this.maxBytes) {
      // The session closes the connection when a sink throws.
      if (bytes.length - before > LIMITS.resultBytes) throw new MessageTooLarge();
      bytes.length = before;
      this.truncated = true;
    } else this.count++;
  };

  /** Bytes since the last call. */
  newBytes(): number {
    const before = this.told;
    this.told = this.bytes.length;
    return this.told - before;
  }

  /** How many more rows the caps leave room for, judged by those that came. */
  expectedRoom(): number {
    const { length } = this.bytes;
    const byBytes = this.count === 0 ? 1 : (this.maxBytes - length) / (length / this.count);
    return Math.floor(Math.min(this.maxRows - this.count, byBytes, this.count * STEP_GROWTH, LONGEST_STEP));
  }
}

const COMMA = 0x2c;

const MODIFYING = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

/** Names as they stand in the rows, types as the API calls them; Postgres is asked only for types that are not built in. */
async function describeColumns(session: Session, columns: readonly ResultColumn[]): Promise<SqlResult['columns']> {
  const names = outputNames(columns);
  const types = columns.map(typeName);
  for (const [i, column] of columns.entries()) {
    if (types[i] !== undefined) continue;
    const { typeOid, typeModifier } = column;
    const rows = await session.query(statement(sql`SELECT pg_catalog.format_type(${typeOid}, ${typeModifier})`));
    types[i] = rows[0]?.[0] ?? '';
  }
  return columns.map((_, i) => ({ name: names[i] ?? '', type: types[i] ?? '' }));
}
