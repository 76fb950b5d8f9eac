/** The rows of a query as the bytes of a file, as they come: every digit as the service sends it. */
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import type { StreamOptions } from '../../client/sql.js';

export const FORMATS = ['csv', 'json', 'ndjson'] as const;

export type Format = (typeof FORMATS)[number];

export const NO_ROWS_OF_JSON = '[]\n';

/** Lines are gathered to pieces of this size. */
const PIECE_CHARACTERS = 64 * 1024;

export async function* rowsAs(
  format: Format,
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: StreamOptions,
): AsyncGenerator<Uint8Array | string, void> {
  if (format === 'csv') return yield* csv(client.sqlCsv(sql, params, options));
  const [open, between, close] = format === 'json' ? ['[', ',\n', ']\n'] : ['', '\n', '\n'];
  let piece = open;
  let isFirst = true;
  for await (const line of client.sqlLines(sql, params, options)) {
    piece += isFirst ? line : between + line;
    isFirst = false;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
  }
  if (isFirst) yield format === 'json' ? NO_ROWS_OF_JSON : '';
  else yield piece + close;
}

/** @throws CdpError with a hint where it broke off: CSV has no place for what the service would have said */
async function* csv(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let hasBegun = false;
  try {
    for await (const piece of pieces) {
      hasBegun = true;
      yield piece;
    }
  } catch (error) {
    if (!hasBegun || !(error instanceof CdpError) || error.code !== 'network_error') throw error;
    throw error.with(error.message, {
      hint: 'If the statement failed on its way, CSV cannot say of what; NDJSON does',
    });
  }
}
