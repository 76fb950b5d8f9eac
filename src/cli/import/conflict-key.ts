/** Checks the columns of `--on-conflict` before anything is created or sent. */
import type { CdpClient } from '../../client/client.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import type { CreateIndexBody, Index } from '../../contract/wire/indexes.js';
import type { Table } from '../../contract/wire/tables.js';
import { UsageError } from '../exit.js';
import { PROGRAM } from '../program-name.js';
import { quoted } from '../terminal/text.js';
import type { ImportPlan } from '../../import/plan.js';

/**
 * The unique index that an import has to create, because the table does not have its columns yet.
 * @param table undefined if it does not exist yet
 * @throws UsageError if no file has one of the columns, or the table has no unique index on them
 */
export async function missingKey(
  client: CdpClient | undefined,
  table: Table | undefined,
  { files, storing: { onConflict } }: ImportPlan,
): Promise<CreateIndexBody | undefined> {
  if (onConflict === undefined) return undefined;
  const columns = [onConflict].flat();
  const given = files.flatMap(({ mappings }) => mappings.flatMap(({ column }) => column ?? []));
  const [unknown] = columns.filter((column) => !given.includes(column));
  if (unknown !== undefined && given.length > 0) {
    throw new UsageError(
      `--on-conflict: no field goes to a column "${unknown}"`,
      didYouMean(unknown, given) ?? `The columns are ${[...new Set(given)].join(', ')}`,
    );
  }
  const existing = ['id', ...(table?.columns.map(({ name }) => name) ?? [])];
  if (!columns.every((column) => existing.includes(column))) return { columns, unique: true };
  if (table === undefined || client === undefined) return undefined;
  if ((await client.indexes(table.name)).some((index) => isKey(index, columns))) return undefined;
  throw new UsageError(
    `The table "${table.name}" has no unique index on ${columns.join(', ')}`,
    `Create one with: ${PROGRAM} index create ${[table.name, ...columns].map(quoted).join(' ')} --unique`,
  );
}

const isKey = ({ columns, unique, partial, valid }: Index, wanted: readonly string[]): boolean =>
  unique && valid && !partial && [...columns].sort().join() === [...wanted].sort().join();
