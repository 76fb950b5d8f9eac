/** Imports files into a table as fast as the service accepts them, and each record once. */
import { join, resolve } from 'node:path';
import type { CdpClient, CreateTable } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { batchQuery } from '../../client/insert.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import { NAME_PATTERN } from '../../contract/names.js';
import type { CreateIndexBody, Index } from '../../contract/wire/indexes.js';
import type { Table } from '../../contract/wire/tables.js';
import { columnNames } from '../../import/column-names.js';
import { missingColumns } from '../../import/field-mapping.js';
import { formatName } from '../../import/format.js';
import { type ImportPlan, planImport, type PlanResult } from '../../import/import-plan.js';
import { encoderFor } from '../../import/record-encoder.js';
import { requireUnchanged } from '../../import/record-reader.js';
import { forgetDoubt, InDoubtError, placeOf } from '../../import/record-sender.js';
import { AS_READ } from '../../import/refused-lines.js';
import type { StartProgress } from '../../import/scan.js';
import { UsageError, PROGRAM } from '../exit.js';
import { ownProject } from '../remote/profiles.js';
import { stateFolder } from '../remote/user-files.js';
import { fitting, terminalWidth } from '../terminal/grid.js';
import { warn } from '../terminal/output.js';
import { grouped, ProgressLine } from '../terminal/progress.js';
import { firstCells, printable, quoted, widthOf } from '../terminal/text.js';
import { type ImportOptions, requireSameStoring, storingOf } from './import-options.js';
import { JournalFile } from './journal-file.js';
import { labelOf, sizeOf, STDIN } from './open-input.js';
import { importFile } from './open-source.js';
import { type ImportResult, sendFiles } from './send-files.js';

/**
 * @param url of the service
 * @param files paths; `-` is standard input
 * @throws UsageError, CdpError before anything is sent; after that, the result says what failed
 */
export async function importFiles(
  client: CdpClient,
  url: string,
  files: readonly string[],
  options: ImportOptions,
): Promise<ImportResult> {
  const { table, resume, resumeLate, dryRun } = options;
  const journals = join(stateFolder(), 'imports');
  requireTableName(table);
  const canResume = await areRepeatable(files);
  const { project } = await ownProject(client);
  const target = { url: new URL(url).href, project: project.id, table, files: files.map((path) => resolve(path)) };
  const journal = canResume && !dryRun ? JournalFile.find(journals, target) : undefined;
  if (resume || resumeLate) {
    const resumed = await resumable(client, journal, options, canResume);
    warn(`${grouped(resumed.stored)} rows are already stored`);
    return sendFiles(client, resumed, [], options);
  }
  requireNoneInterrupted(journal, options);
  const { plan, opened } = await prepareTable(client, files, options);
  const created = await JournalFile.create(canResume && !dryRun ? journals : undefined, target, plan);
  return sendFiles(client, created, opened, options);
}

/**
 * Shows the requests that an import would send, with only the first few records.
 * @param client undefined: as if the table did not exist
 */
export async function previewImport(
  client: CdpClient | undefined,
  files: readonly string[],
  options: ImportOptions,
): Promise<void> {
  const { table: name } = options;
  requireTableName(name);
  await areRepeatable(files);
  const table = client === undefined ? undefined : await findTable(client, name, true);
  const { plan, warnings, firstRecords, opened } = await planFiles(client, files, table, options);
  for (const source of opened) source?.input.close();
  const key = await missingKey(client, table, plan);
  const schema = '/api/cdp/schema/table';
  const requests =
    table === undefined
      ? [{ request: `POST ${schema}`, body: JSON.stringify(tableFor(name, plan), null, 2) }]
      : missingColumns(plan.files, table).map((column) => {
          return { request: `POST ${schema}/${name}/column`, body: JSON.stringify(column) };
        });
  if (key !== undefined) requests.push({ request: `POST ${schema}/${name}/index`, body: JSON.stringify(key) });
  plan.files.forEach(({ format, mappings }, i) => {
    const encode = encoderFor(format.kind, mappings, plan.reading);
    const records = (firstRecords[i] ?? []).map((record) => encode(record).json);
    requests.push({
      request: `POST /api/cdp/data/${name}${batchQuery(plan.storing)}`,
      body: records.join('\n'),
    });
  });
  showPlan(plan, warnings);
  process.stdout.write(requests.map(({ request, body }) => `${request}\n${body}\n`).join(''));
}

async function planFiles(
  client: CdpClient | undefined,
  files: readonly string[],
  table: Table | undefined,
  options: ImportOptions,
): Promise<PlanResult> {
  const generated = client && table ? await generatedColumns(client, table.name) : new Set<string>();
  return planImport(files.map(importFile), table, { ...options, generated }, storingOf(options), watchReading);
}

/** The columns that take no values: computed from others, or numbered always. None if the token may not run SQL. */
async function generatedColumns(client: CdpClient, table: string): Promise<ReadonlySet<string>> {
  const sql =
    "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = quote_ident($1)::regclass AND NOT attisdropped AND (attgenerated <> '' OR attidentity = 'a')";
  try {
    const { rows } = await client.query<{ attname: string }>(sql, [table], { read_only: true });
    return new Set(rows.map(({ attname }) => attname));
  } catch (error) {
    if (error instanceof CdpError && error.status === 403) return new Set();
    throw error;
  }
}

const watchReading: StartProgress = (label, progress) => {
  const line = new ProgressLine(() => ({ ...progress(), refused: 0 }), `Reading ${label.split('/').at(-1)}: `);
  return () => line.end();
};

/** @throws UsageError suggesting a valid name */
function requireTableName(table: string): void {
  if (new RegExp(NAME_PATTERN).test(table)) return;
  const [possible = ''] = columnNames([table], { keep: true, hasIds: false });
  throw new UsageError(`"${table}" is not a valid table name`, `For example --table ${possible}`);
}

/** Whether all files can be read again. @throws UsageError if one does not exist */
async function areRepeatable(files: readonly string[]): Promise<boolean> {
  if (files.includes(STDIN) && files.length > 1) throw new UsageError('Standard input must be imported on its own');
  return !(await Promise.all(files.map(sizeOf))).includes(null);
}

/** The journal to resume with. @throws UsageError if there is none, or resuming is not safe */
async function resumable(
  client: CdpClient,
  journal: JournalFile | undefined,
  options: ImportOptions,
  canResume: boolean,
): Promise<JournalFile> {
  const { table, resumeLate } = options;
  if (!canResume) throw new UsageError('Input that can be read only once, such as standard input, cannot be resumed');
  if (journal === undefined)
    throw new UsageError(`There is no interrupted import of these files into "${table}"`, 'Import without --resume');
  try {
    requireSameStoring(options, journal.header.plan.storing);
    for (const { path, identity } of journal.header.plan.files) await requireUnchanged(importFile(path), identity);
    await placeOf(client, journal, table).catch((error: unknown) => {
      if (!(error instanceof InDoubtError)) throw error;
      if (resumeLate) return forgetDoubt(journal);
      throw new UsageError(
        error.message,
        'Check whether the rows were stored; then continue with --resume-late, or start again with --restart',
      );
    });
    return journal;
  } catch (error) {
    journal.close();
    throw error;
  }
}

/** @throws UsageError if an earlier import was interrupted, unless `restart` discards it */
function requireNoneInterrupted(journal: JournalFile | undefined, { table, restart }: ImportOptions): void {
  if (journal === undefined) return;
  if (restart) return journal.remove();
  journal.close();
  throw new UsageError(
    `An import of these files into "${table}" was started at ${journal.header.begun} and interrupted; at least ${grouped(journal.stored)} rows are stored`,
    'Continue it with --resume, which stores each row once, or start again with --restart, which leaves the rows that are stored as they are',
  );
}

/** Plans the import, and creates the table or missing columns if the options allow it. @throws UsageError if not */
async function prepareTable(client: CdpClient, files: readonly string[], options: ImportOptions): Promise<PlanResult> {
  const { table: name, create, addColumns } = options;
  // Checked before reading the files, which can take a while.
  const table = await findTable(client, name, create);
  const planResult = await planFiles(client, files, table, options);
  const { plan, warnings } = planResult;
  showPlan(plan, warnings);
  const key = await missingKey(client, table, plan);
  if (table === undefined) await client.createTable(tableFor(name, plan));
  else await addMissing(client, table, plan, addColumns);
  if (key !== undefined) await client.createIndex(name, key);
  return planResult;
}

/** @throws UsageError if columns are missing and may not be added */
async function addMissing(client: CdpClient, table: Table, plan: ImportPlan, addColumns = false): Promise<void> {
  const missing = missingColumns(plan.files, table);
  if (missing.length > 0 && !addColumns) {
    const names = missing.map((column) => column.name);
    const ambiguous = plan.files.flatMap(({ mappings }) => mappings).find(({ field }) => field === AS_READ);
    if (ambiguous !== undefined && names.includes(ambiguous.column ?? ''))
      throw new UsageError(
        `A record is not corrected yet: it has "${AS_READ}"`,
        `Put its values under the right names, and remove "${AS_READ}"`,
      );
    throw new UsageError(
      `The table "${table.name}" has no ${names.length === 1 ? 'column' : 'columns'} ${names.join(', ')}`,
      `Add with --add-columns, leave out with --skip ${names.join(',')} or --unknown ignore, keep in a JSONB column with --unknown into:COLUMN, or rename: --rename Field=column`,
    );
  }
  for (const column of missing) await client.addColumn(table.name, column);
}

/** @throws UsageError if it is missing and may not be */
async function findTable(client: CdpClient, name: string, mayBeMissing = false): Promise<Table | undefined> {
  try {
    return await client.describe(name);
  } catch (error) {
    if (!(error instanceof CdpError) || error.code !== 'table_not_found') throw error;
    if (mayBeMissing) return undefined;
    const near = error.hint?.startsWith('Did you mean') ? `${error.hint}\n` : '';
    throw new UsageError(
      `There is no table "${name}"`,
      `${near}Create it with --create; look at it first with --preview`,
    );
  }
}

const tableFor = (name: string, { files }: ImportPlan): CreateTable => ({
  table_name: name,
  columns: missingColumns(files, undefined),
});

/**
 * The unique index that an import has to create, because the table does not have its columns yet.
 * @param table undefined if it does not exist yet
 * @throws UsageError if no file has one of the columns, or the table has no unique index on them
 */
async function missingKey(
  client: CdpClient | undefined,
  table: Table | undefined,
  { files, storing: { onConflict } }: ImportPlan,
): Promise<CreateIndexBody | undefined> {
  if (onConflict === undefined) return undefined;
  const columns = [onConflict].flat();
  const usedColumns = files.flatMap(({ mappings }) => mappings.flatMap(({ column }) => column ?? []));
  const [unknown] = columns.filter((column) => !usedColumns.includes(column));
  if (unknown !== undefined && usedColumns.length > 0) {
    throw new UsageError(
      `--on-conflict: no field goes to a column "${unknown}"`,
      didYouMean(unknown, usedColumns) ?? `The columns are ${[...new Set(usedColumns)].join(', ')}`,
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

const isKey = ({ columns, unique, partial, valid }: Index, key: readonly string[]): boolean =>
  unique && valid && !partial && [...columns].sort().join() === [...key].sort().join();

/** Some field names are whole sentences, which would leave no room for the rest. */
const FIELD_WIDTH = 40;

function shortened(field: string): string {
  const name = printable(field);
  return widthOf(name) <= FIELD_WIDTH ? name : `${firstCells(name, FIELD_WIDTH - 1)}…`;
}

export function showPlan({ files }: ImportPlan, warnings: readonly string[]): void {
  for (const { path, format, mappings } of files) {
    const hasReasons = mappings.some(({ reason }) => reason !== undefined);
    const rows = mappings.map(({ field, column, type, reason }) => {
      return [shortened(field), column ?? '(left out)', type ?? '', ...(hasReasons ? [reason ?? ''] : [])];
    });
    const names = ['field', 'column', 'type', ...(hasReasons ? ['why'] : [])];
    const table = fitting(
      names.map((name) => ({ name })),
      rows,
      terminalWidth(process.stderr),
    );
    warn(printable(`${labelOf(path)}: ${formatName(format)}`));
    warn(rows.length === 0 ? 'no records' : table.join('\n'));
  }
  warnings.forEach(warn);
}
