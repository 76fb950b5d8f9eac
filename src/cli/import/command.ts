/** `cdp import FILE… --table T`: the options of an import, its output and its exit code. */
import { Command, InvalidArgumentError, Option } from 'commander';
import type { StoreOptions } from '../../client/insert.js';
import { EXIT, type ExitCode, ExitError, UsageError, PROGRAM } from '../exit.js';
import { clientFor, profileFromOptions } from '../remote/profiles.js';
import {
  collect,
  conflictOptions,
  list,
  needsOption,
  pairs,
  remoteOptions,
  renames,
  requireKeyOf,
  whole,
} from '../remote/remote-options.js';
import { requireFolderOf } from '../remote/user-files.js';
import { warn } from '../terminal/output.js';
import { countedRows, grouped, speedOf } from '../terminal/progress.js';
import { quoted } from '../terminal/text.js';
import { FileError } from '../../import/file-error.js';
import { FORMATS } from '../../import/format.js';
import { importFiles, previewImport } from './import.js';
import { type ImportOptions, storingFlags } from './import-options.js';
import type { ImportResult } from './send-files.js';
import { DATE_ORDERS } from '../../import/timestamps.js';
import { REQUESTED_TYPES, requestedType, type RequestedType } from '../../import/field-mapping.js';

export function importCommand(): Command {
  const start = new Command('import')
    .description('Import CSV, TSV, NDJSON or JSON, optionally gzipped, Parquet or Excel workbooks into a table')
    .argument('<FILE...>', '- reads standard input');
  const command = needsOption(start, '--table <NAME>', 'Table to import into')
    .option('--create', 'Create the table if it does not exist')
    .option('--add-columns', 'Add missing columns to the table')
    .option(
      '--types <LIST>',
      'Column types: a=TEXT,b=EPOCH_SECONDS (repeatable; default: types that fit every value)',
      columnTypes,
    )
    .option('--rename <LIST>', 'Column names: Field=column (repeatable)', renames)
    .addOption(
      new Option('--snake-case', 'Convert names to snake case: firstName becomes first_name').conflicts('keepNames'),
    )
    .option('--keep-names', 'Keep field names as column names if possible')
    .option('--skip <LIST>', 'Columns to omit: a,b', list)
    .option('--sheet <NAME>', 'Sheet of a workbook (default: the first)')
    .option('--flatten', 'Make the members of nested JSON objects columns: address_city')
    .addOption(new Option('--format <NAME>', 'File format (default: by content and name)').choices([...FORMATS]))
    .option('--delimiter <CHARACTER>', 'Field delimiter (default: by content)', character)
    .option('--no-quotes', 'Treat quotes as text')
    .option('--escape <CHARACTER>', 'Escapes a quote within quotes, such as \\ (default: another quote)', character)
    .option('--skip-lines <N>', 'Lines to skip before the header', whole, 0)
    .option('--columns <LIST>', 'Field names, if the file has no header: a,b,c', list)
    .option('--encoding <NAME>', 'Text encoding (default: utf-8, or utf-16 with a byte order mark)')
    .option('--null <TEXT>', 'Treat this text as NULL as well, such as \\N (repeatable)', collect)
    .addOption(
      new Option('--decimal <CHARACTER>', 'Decimal separator').choices(['.', ',']).default('.').argParser(decimal),
    )
    .option('--thousands <CHARACTER>', 'Thousands separator (default: none)', character)
    .addOption(
      new Option('--dates <ORDER>', 'Order in 1/2/2024 (default: as the file shows)').choices([...DATE_ORDERS]),
    )
    .option('--sample <N>', 'Records to infer types from (default: all; 10000 of a pipe)', whole)
    .option('--preview', 'Show what would be sent; send nothing')
    .addOption(
      new Option('--dry-run', 'Send everything, and let the service roll it back; the table must exist').conflicts([
        ...['create', 'addColumns', 'preview', 'resume', 'resumeLate', 'restart'],
      ]),
    )
    .option('--resume', 'Resume an interrupted import')
    .option('--resume-late', 'Resume even if idempotency keys may have expired; could store rows twice')
    .option('--restart', 'Discard an interrupted import and start again')
    .option('--refused <FILE>', 'File to write refused records to (default: FILE.refused.ndjson)')
    .option('--strict', 'Stop at the first refused record')
    .addOption(
      new Option('--quarantine', 'Keep all refused records in the service (see cdp quarantine)').conflicts([
        ...['strict', 'refused'],
      ]),
    )
    .option('--json', 'Print the result as JSON')
    .addHelpText('after', EXAMPLES);
  return remoteOptions(conflictOptions(command)).action(async (files: string[]) => {
    process.exitCode = await run(command, files, command.opts<ImportOptions>());
  });
}

const EXAMPLES = `
Examples:
  cdp import customers.csv --table customers --create --preview
  cdp import customers.csv --table customers --create
  cdp import sales.csv --table sales --create --decimal , --thousands . --encoding windows-1252
  cdp import part-*.csv.gz --table events --add-columns
  cdp import customers.csv --table customers --resume

For column names, types, dates and NULL, see docs/cli.md in the package`;

function character(value: string): string {
  const text = value === '\\t' ? '\t' : value;
  if (text.length !== 1 || /["\r\n]/.test(text)) throw new InvalidArgumentError('Expected one character.');
  return text;
}

function decimal(value: string): string {
  if (value !== '.' && value !== ',') throw new InvalidArgumentError('Expected "." or ",".');
  return value;
}

/** Retries without any progress, for about 20 seconds in all: a long import should survive a restart of the service. */
const RETRIES = 8;

async function run(command: Command, files: readonly string[], options: ImportOptions): Promise<ExitCode> {
  const { thousands, decimal } = options;
  if (thousands === decimal)
    throw new UsageError(`--thousands and --decimal are both "${decimal}"`, 'For 1.234,5: --decimal , --thousands .');
  requireKeyOf(options);
  // Checked now, not when the first refused record has to be written.
  if (options.refused !== undefined) await requireFolderOf(options.refused);
  const connection = await profileFromOptions(command).catch((error: unknown) => {
    // A file can be examined without a service.
    if (options.preview && options.create) return undefined;
    throw error;
  });
  if (connection === undefined || options.preview) {
    const client = connection === undefined ? undefined : clientFor(connection);
    await previewImport(client, files, options);
    return EXIT.done;
  }
  const client = clientFor(connection, RETRIES);
  return report(await importFiles(client, connection.url, files, options), files, options);
}

/** @param value such as `a=TEXT,b=INTEGER` */
function columnTypes(value: string, before?: ReadonlyMap<string, RequestedType>): Map<string, RequestedType> {
  const types = new Map(before);
  for (const [name, typeName] of pairs(value)) {
    const type = requestedType(typeName);
    if (type === undefined)
      throw new InvalidArgumentError(`Expected a=TEXT,b=INTEGER; the types are ${REQUESTED_TYPES.join(', ')}.`);
    types.set(name, type);
  }
  return types;
}

function report(result: ImportResult, files: readonly string[], options: ImportOptions): ExitCode {
  const { outcome, error, inserted, updated, ignored, unchanged, refused, quarantined } = result;
  const { storing, storedNow, retries, refusedFile, seconds } = result;
  const { table } = options;
  const isUpsert = storing.onConflict !== undefined;
  const skips = storing.unchanged !== undefined;
  const others =
    (isUpsert ? `, ${grouped(updated)} updated, ${grouped(ignored)} ignored` : '') +
    (skips ? `, ${grouped(unchanged)} unchanged` : '');
  const kept = quarantined === 0 ? '' : `, ${grouped(quarantined)} quarantined`;
  const soFar = `${grouped(inserted)} rows are stored${others}, ${grouped(refused)} refused${kept}`;
  if (outcome === 'failed') {
    // A corrected file is a different file, so the import cannot be resumed.
    if (error instanceof FileError && inserted + updated > 0) throw new ExitError(EXIT.refused, soFar, error);
    warn(`${soFar}. ${howToResume(result, files, options)}`);
    throw error;
  }
  if (outcome === 'stopped') {
    throw new ExitError(EXIT.interrupted, `${soFar}. ${howToResume(result, files, options)}`);
  }
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ table, inserted, ...(isUpsert ? { updated, ignored } : {}), ...(skips ? { unchanged } : {}), refused, quarantined, refused_file: refusedFile, seconds: Number(seconds.toFixed(3)), retries })}\n`
      : `${countedRows(inserted)} ${options.dryRun ? 'could be stored' : 'stored'} in ${table}${others}, ${grouped(refused)} refused${kept}, ${seconds.toFixed(1)} s${speedOf(storedNow, seconds)}\n`,
  );
  if (refusedFile !== null && options.dryRun) {
    warn(`The records that would be refused are in ${refusedFile}, each with the reason`);
  } else if (refusedFile !== null) {
    const next = commandFor([refusedFile], options, storing);
    warn(`The refused records are in ${refusedFile}\nCorrect them there, then import them with:\n  ${next}`);
  }
  if (options.dryRun) warn('Nothing was stored. In a dry run, batches do not see the rows of other batches');
  else if (quarantined > 0)
    warn(`List the quarantined records with:\n  ${PROGRAM} quarantine list --table ${quoted(table)}`);
  return refused + quarantined > 0 ? EXIT.someRefused : EXIT.done;
}

function howToResume({ canResume, storing }: ImportResult, files: readonly string[], options: ImportOptions): string {
  if (!canResume) return 'Input that can be read only once cannot be resumed';
  const how = options.strict ? 'Continue, without the refused records, with' : 'Continue with';
  return `${how}:\n  ${commandFor(files, options, storing)} --resume`;
}

function commandFor(files: readonly string[], { table, profile }: ImportOptions, storing: StoreOptions): string {
  const words = [
    'import',
    ...files,
    '--table',
    table,
    ...storingFlags(storing),
    ...(profile === undefined ? [] : ['--profile', profile]),
  ];
  return [PROGRAM, ...words.map(quoted)].join(' ');
}
