/** Deletes rows by their keys. */
import type { DeleteResponse } from '../contract/wire/batch.js';
import { newKey } from './insert.js';
import { toJson } from './json.js';
import { checkOptions, type Names } from './options.js';
import type { Transport } from './transport.js';

export interface DeleteOptions {
  /** Columns of a unique index. */
  by: string | readonly string[];
  idempotencyKey?: string;
  /** Roll everything back, and only count the rows. */
  dryRun?: true;
  signal?: AbortSignal;
}

const NAMES: Names<DeleteOptions> = { by: true, idempotencyKey: true, dryRun: true, signal: true };

/**
 * Deletes the rows with 1 to 250 keys in one request.
 * @returns the number of deleted rows
 */
export async function deleteBatch(
  transport: Transport,
  path: string,
  keys: readonly object[],
  options: DeleteOptions,
): Promise<number> {
  checkOptions(options, NAMES, 'delete');
  const { by, idempotencyKey = newKey(), dryRun, signal } = options;
  const query = new URLSearchParams({ by: [by].flat().join(','), ...(dryRun ? { dry_run: 'true' } : {}) });
  const response = await transport.json<DeleteResponse>({
    method: 'DELETE',
    path: `${path}?${query.toString()}`,
    body: toJson(keys),
    headers: dryRun ? {} : { 'idempotency-key': idempotencyKey },
    idempotent: true,
    signal,
  });
  return response.deleted_rows;
}
