/** `cdp import FILE… --table T`: files into a table, as fast as the service takes them, each record once. */
import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { CdpError } from '../../client/error.js';
import type { CdpClient } from '../../client/client.js';
import { NAME_PATTERN } from '../../contract/names.js';
import type { Table } from '../../contract/wire/tables.js';
import { clientFor, findConnection, remoteOptions } from '../remote/connection.js';
import { ending, type ExitCode, UsageError } from '../remote/outcome.js';
import { requireFolderOf } from '../remote/output-file.js';
import { grouped } from '../remote/progress.js';
import { collect, whole } from '../remote/sql.js';
import { showDryRun, showPlan } from './choices.js';
import { columnNames } from './column-names.js';
import { FORMATS } from './format.js';
import { sizeOf, STDIN } from './input.js';
import { Journal } from './journal.js';
import { type ImportOptions, planIn, readingIn } from './options.js';
import { type ImportPlan, missingColumns, prepare, refuseChanged, tableFor } from './prepare.js';
import { runImport } from './run.js';
import { DATE_ORDERS } from './timestamps.js';

export function importCommand(): Command {
  const command = new Command('import')
    .description('Import CSV, TSV, NDJSON or JSON, also gzipped, into a table')
    .argument('<FILE...>', '- reads standard input')
    .requiredOption('--table <NAME>', 'Into this table')
    .option('--create', 'Make the table where it is not there')
    .option('--add-columns', 'Add the columns that the table lacks')
    .option('--types <LIST>', 'Types of columns: a=TEXT,b=INTEGER (default: those that hold every value)')
    .option('--skip <LIST>', 'Columns to leave out: a,b')
    .option('--keep-names', 'Leave heads as they are, where a column can be called so')
    .addOption(new Option('--format <NAME>', 'Default: by content and name').choices([...FORMATS]))
    .option('--delimiter <CHARACTER>', 'Of fields (default: by content)', delimiter)
    .option('--no-quotes', 'Quotes are text like any other')
    .option('--escape <CHARACTER>', 'Before a quote within quotes, as \\ (default: another quote)', delimiter)
    .option('--skip-lines <N>', 'Lines before the head', whole, 0)
    .option('--columns <LIST>', 'Names of the fields, where the file has no head: a,b,c')
    .option('--encoding <NAME>', 'Of the text (default: utf-8, or utf-16 where the file says so)')
    .option('--null <TEXT>', 'Also means NULL, as the empty field does; can be given several times', collect)
    .addOption(new Option('--decimal <CHARACTER>', 'Between whole and fraction').choices(['.', ',']).default('.'))
    .option('--thousands <CHARACTER>', 'Between thousands (default: none)', delimiter)
    .addOption(
      new Option('--dates <ORDER>', 'Of 1/2/2024 (default: as far as the file shows it)').choices([...DATE_ORDERS]),
    )
    .option('--sample <N>', 'Records to guess types from (default: all, 10000 of what can be read but once)', whole)
    .option('--dry-run', 'Show what would be sent, and send nothing')
    .option('--resume', 'Go on with an import that was interrupted')
    .option('--resume-late', 'Go on even where the keys may be forgotten that keep rows from being stored twice')
    .option('--restart', 'Forget an interrupted import, and begin anew')
    .option('--refused <FILE>', 'For the records that are refused (default: FILE.refused.ndjson)')
    .option('--strict', 'End with the first record that is refused')
    .option('--concurrency <N>', 'Batches under way at a time', whole, 4)
    .option('--json', 'Print the result as JSON')
    .addHelpText('after', EXAMPLES);
  return remoteOptions(command).action((paths: string[]) =>
    ending(() => importFiles(command, paths, command.opts<ImportOptions>())),
  );
}

const EXAMPLES = `
Examples:
  cdp import customers.csv --table customers --create --dry-run
  cdp import customers.csv --table customers --create
  cdp import umsatz.csv --table sales --create --decimal , --thousands . --encoding windows-1252
  cdp import part-*.csv.gz --table events --add-columns
  cdp import customers.csv --table customers --resume

All of it, with what becomes of names, types, dates and NULL: docs/cli.md of the package`;

function delimiter(value: string): string {
  const character = value === '\\t' ? '\t' : value;
  if (character.length !== 1 || /["\r\n]/.test(character)) throw new InvalidArgumentError('It takes one character.');
  return character;
}

/** @throws UsageError with a name that can be one */
function refuseName(table: string): void {
  if (new RegExp(NAME_PATTERN).test(table)) return;
  const [possible = ''] = columnNames([table], { keep: true, hasIds: false });
  throw new UsageError(`A table cannot be called "${table}"`, `For instance --table ${possible}`);
}

async function importFiles(command: Command, paths: readonly string[], options: ImportOptions): Promise<ExitCode> {
  const { table: name } = options;
  refuseName(name);
  // Before a record is refused that could then not be written down.
  if (options.refused !== undefined) await requireFolderOf(options.refused);
  if (paths.includes(STDIN) && paths.length > 1) throw new UsageError('Standard input is imported alone');
  const sizes = await Promise.all(paths.map(sizeOf));
  const isOnce = sizes.includes(null);
  const planning = { ...planIn(options), addColumns: options.addColumns ?? false, sample: options.sample };
  const connection = await findConnection(command).catch((error: unknown) => {
    // What a file is can be seen without any service.
    if (options.dryRun && options.create) return undefined;
    throw error;
  });
  if (connection === undefined) {
    return showDryRun(name, await prepare(paths, readingIn(options), undefined, planning), undefined);
  }
  const { project } = await clientFor(connection).token();
  const client = clientFor(connection, RETRIES);
  const target = {
    url: new URL(connection.url).href,
    project: project.id,
    table: name,
    files: paths.map((path) => resolve(path)),
  };
  const interrupted = isOnce ? undefined : Journal.find<ImportPlan>(target);
  if (options.resume || options.resumeLate) {
    if (isOnce) throw new UsageError('What can be read but once cannot be resumed, as standard input');
    return resume(client, interrupted, options);
  }
  if (interrupted !== undefined && options.restart) {
    await interrupted.remove();
  } else if (interrupted !== undefined && !options.dryRun) {
    await interrupted.close();
    const { header, totals } = interrupted;
    throw new UsageError(
      `An import of this into "${name}" was begun at ${header.begun} and did not end; ${grouped(totals.inserted)} rows are stored`,
      'Go on with --resume, or begin anew with --restart, which leaves those rows where they are',
    );
  }
  const table = await tableOrNone(client, name);
  // Before a file is looked through, which can take a while.
  if (table === undefined && !options.create && !options.dryRun) {
    throw new UsageError(`There is no table "${name}"`, 'Make it with --create; look at it before with --dry-run');
  }
  const prepared = await prepare(paths, readingIn(options), table, planning);
  if (options.dryRun) return showDryRun(name, prepared, table);
  showPlan(prepared);
  const { plan, opened } = prepared;
  await makeReady(client, table, plan, options);
  const journal = await Journal.begin(target, plan, !isOnce);
  return runImport({ client, journal, opened, options });
}

/** Of a batch, some 20 seconds in all: what runs for minutes should outlive a restart of the service. */
const RETRIES = 8;

async function tableOrNone(client: CdpClient, name: string): Promise<Table | undefined> {
  try {
    return await client.describe(name);
  } catch (error) {
    if (error instanceof CdpError && error.code === 'table_not_found') return undefined;
    throw error;
  }
}

/** Makes the table or its columns, as far as that was asked for. @throws UsageError where it was not */
async function makeReady(
  client: CdpClient,
  table: Table | undefined,
  plan: ImportPlan,
  { table: name, addColumns }: ImportOptions,
): Promise<void> {
  if (table === undefined) {
    await client.createTable(tableFor(name, plan));
    return;
  }
  const missing = missingColumns(plan, table);
  if (missing.length > 0 && !addColumns) {
    const names = missing.map(({ name: column }) => column).join(', ');
    throw new UsageError(
      `The table "${name}" has no column ${names}`,
      `Add with --add-columns, or leave out: --skip ${names.replaceAll(', ', ',')}`,
    );
  }
  for (const column of missing) await client.addColumn(name, column);
}

async function resume(
  client: CdpClient,
  journal: Journal<ImportPlan> | undefined,
  options: ImportOptions,
): Promise<ExitCode> {
  if (journal === undefined)
    throw new UsageError(`No import of this into "${options.table}" was interrupted`, 'Import without --resume');
  try {
    const lost = journal.beyondRecall;
    if (lost > 0 && !options.resumeLate) {
      throw new UsageError(
        `${lost} batches of up to 250 rows were sent more than 23 hours ago and not answered; the service keeps keys for 24, so they could be stored twice`,
        'Look whether their rows are there, and go on with --resume-late, or begin anew with --restart',
      );
    }
    for (const { path, identity } of journal.header.plan.files) {
      await refuseChanged(path, identity);
    }
  } catch (error) {
    await journal.close();
    throw error;
  }
  process.stderr.write(`${grouped(journal.totals.inserted)} rows are stored already\n`);
  return runImport({ client, journal, opened: [], options });
}
