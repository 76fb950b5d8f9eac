/** Streams the rows of a query as the bytes of a file, with every digit that the service sends. */
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import type { StreamEnd } from '../../client/row-stream.js';
import type { LineOptions } from '../../client/sql.js';

export const EXPORT_FORMATS = ['csv', 'json', 'ndjson'] as const;

export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** A file without rows; that of CSV has no header either. */
export const EMPTY_JSON = '[]\n';

/** Lines are collected into chunks of this size. */
const CHUNK_CHARACTERS = 64 * 1024;

/** @param onEnd called after the last row, except for CSV, whose stream has no place for what it gets */
export async function* rowsAs(
  format: ExportFormat,
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: LineOptions,
  onEnd?: (end: StreamEnd) => void,
): AsyncGenerator<Uint8Array | string, void> {
  if (format === 'csv') return yield* csv(client.sqlCsv(sql, params, options));
  const [open, between, close] = format === 'json' ? ['[', ',\n', ']\n'] : ['', '\n', '\n'];
  let chunk = open;
  let isFirst = true;
  for await (const line of client.sqlLines(sql, params, options, onEnd)) {
    chunk += isFirst ? line : between + line;
    isFirst = false;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield chunk;
    chunk = '';
  }
  if (isFirst) yield format === 'json' ? EMPTY_JSON : '';
  else yield chunk + close;
}

/** @throws CdpError with a hint if the rows break off: CSV cannot carry the service's error */
async function* csv(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let hasBegun = false;
  try {
    for await (const chunk of chunks) {
      hasBegun = true;
      yield chunk;
    }
  } catch (error) {
    if (!hasBegun || !(error instanceof CdpError) || error.code !== 'network_error') throw error;
    throw error.with(error.message, {
      hint: 'If the statement failed midway, CSV cannot show why; NDJSON can',
    });
  }
}

const LF = 0x0a;
const QUOTE = 0x22;

/**
 * Counts the rows in the bytes of a file as they pass; for Parquet, in which rows cannot be seen, through {@link
 * addRow}.
 */
export class RowCounter {
  bytes = 0;
  private lines = 0;
  private isQuoted = false;

  /** @param hasTypes whether the first line of NDJSON contains names and types */
  constructor(
    private readonly format: ExportFormat | 'parquet',
    private readonly hasTypes = false,
  ) {}

  /** The header of CSV is not a row; JSON has one row per line. */
  get rows(): number {
    if (this.format === 'json' && this.bytes === EMPTY_JSON.length) return 0;
    return this.format === 'csv' || this.hasTypes ? Math.max(0, this.lines - 1) : this.lines;
  }

  addRow(): void {
    this.lines++;
  }

  add(bytes: Uint8Array): void {
    const isCsv = this.format === 'csv';
    this.bytes += bytes.length;
    if (this.format === 'parquet') return;
    for (const byte of bytes) {
      // A doubled quote within quotes ends and begins them again, which has the same effect.
      if (isCsv && byte === QUOTE) this.isQuoted = !this.isQuoted;
      else if (byte === LF && !this.isQuoted) this.lines++;
    }
  }
}
