/** The rows of a query as the bytes of a file, as they come: every digit as the service sends it. */
import type { CdpClient } from '../../client/client.js';
import type { StreamOptions } from '../../client/sql.js';

export const FORMATS = ['csv', 'json', 'ndjson'] as const;

export type Format = (typeof FORMATS)[number];

/** Lines are gathered to pieces of this size. */
const PIECE_CHARACTERS = 64 * 1024;

export async function* rowsAs(
  format: Format,
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: StreamOptions,
): AsyncGenerator<Uint8Array | string, void> {
  if (format === 'csv') return yield* client.sqlCsv(sql, params, options);
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
  if (isFirst) yield format === 'json' ? '[]' : '';
  else yield piece + close;
}
