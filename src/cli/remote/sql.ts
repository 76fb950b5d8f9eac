/**
 * `cdp sql`: runs SQL from an argument, a file or standard input, and prints a table on a terminal, otherwise CSV; or
 * opens the shell.
 */
import { text } from 'node:stream/consumers';
import { Command, Option } from 'commander';
import type { CdpClient } from '../../client/client.js';
import type { QueryOptions } from '../../client/sql.js';
import { counted } from '../../contract/message-text.js';
import { explainingSql, PROGRAM, UsageError } from '../exit.js';
import { clientFromOptions } from './profiles.js';
import { collect, milliseconds, numbersOption, remoteOptions, whole } from './remote-options.js';
import { terminalWidth } from '../terminal/grid.js';
import { quoted } from '../terminal/text.js';
import { printChunks, printLines, warn, writeLines } from '../terminal/output.js';
import { abortOnSignals } from '../signals.js';
import { readTextFile } from './user-files.js';
import { type Layout, printWarnings, queryResults, resultLines, tagLine } from './results.js';
import { EMPTY_JSON, type ExportFormat, rowsAs } from './rows.js';
import { earlierRows, returnsNothing } from './shell/statements.js';

interface Options {
  file?: string;
  param?: unknown[];
  csv?: boolean;
  json?: boolean;
  ndjson?: boolean;
  table?: boolean;
  expanded?: boolean;
  history: boolean;
  numbers?: 'string' | 'raw';
  readOnly?: boolean;
  dryRun?: true;
  timeout?: number;
  maxRows: number;
}

export function sqlCommand(): Command {
  const format = (flags: string, description: string, ...conflicts: string[]) =>
    new Option(flags, description).conflicts(conflicts);
  const command = new Command('sql')
    .description('Run SQL and print a table on a terminal, otherwise CSV. On a terminal without SQL, open a shell')
    .usage('[options] [SQL]')
    .argument('[SQL...]', 'The statement (default: standard input)')
    .option('-f, --file <FILE>', 'File that holds the statement')
    .option('--param <VALUE>', 'Value of $1, then $2, …, as text (repeatable)', collect)
    .addOption(format('--csv', 'Print CSV; an empty field is NULL, "" the empty string', 'json', 'ndjson', 'table'))
    .addOption(format('--json', 'Print an array of objects', 'ndjson', 'table'))
    .addOption(format('--ndjson', 'Print one object per line', 'table'))
    .addOption(format('--table', 'Print a table, as on a terminal'))
    .addOption(
      format('-x, --expanded', 'Print one value per line (default if rows are too wide)', 'csv', 'json', 'ndjson'),
    )
    .addOption(numbersOption())
    .option('--read-only', 'Run in a read-only transaction')
    .addOption(
      new Option('--dry-run', 'Roll everything back, and print what would have changed').conflicts([
        ...['csv', 'json', 'ndjson', 'readOnly'],
      ]),
    )
    .option('--timeout <TIME>', 'Time limit, at most 60s; a number alone is in ms (default: 30s)', milliseconds)
    .option('--max-rows <N>', 'Rows to show in a table; other formats have no limit', whole, 1_000)
    .option('--no-history', 'Do not keep a shell history')
    .addHelpText('after', EXAMPLES);
  return remoteOptions(command).action(async (words: string[]) => {
    const [argument] = words;
    if (words.length > 1)
      throw new UsageError(`Put the statement in quotes: ${PROGRAM} sql ${quoted(words.join(' '))}`);
    const options = command.opts<Options>();
    if (isShell(argument, options)) return openShell(await clientFromOptions(command), options);
    const sql = await statement(argument, options);
    const client = await clientFromOptions(command);
    await explainingSql(sql, () => abortOnSignals((signal) => run(client, sql, options, signal)));
  });
}

const EXAMPLES = `
Examples:
  cdp sql
  cdp sql 'SELECT * FROM customers WHERE age > $1' --param 30
  cdp sql -f report.sql > report.csv
  echo 'SELECT 1 AS one' | cdp sql --json`;

const isShell = (argument: string | undefined, options: Options): boolean =>
  argument === undefined &&
  options.file === undefined &&
  formatOf(options) === undefined &&
  process.stdin.isTTY &&
  process.stdout.isTTY;

async function openShell(client: CdpClient, options: Options): Promise<void> {
  if (options.param !== undefined)
    throw new UsageError('The shell takes no --param', 'Write the values into the statement');
  const { openShell: open } = await import('./shell/shell.js');
  const { expanded = 'auto', history: keepsHistory, maxRows } = options;
  await open(client, { query: { ...queryOptions(options), max_rows: maxRows }, expanded, keepsHistory });
}

const queryOptions = ({ readOnly, timeout }: Options): QueryOptions => ({
  ...(readOnly === undefined ? {} : { read_only: readOnly }),
  ...(timeout === undefined ? {} : { timeout_ms: timeout }),
});

async function statement(argument: string | undefined, { file }: Options): Promise<string> {
  if (argument !== undefined && file !== undefined) throw new UsageError('Give either the SQL or a file, not both');
  if (argument === undefined && file === undefined && process.stdin.isTTY) {
    throw new UsageError('There is no SQL to run', 'Give it as an argument, in a file with -f, or pipe it in');
  }
  const sql = argument ?? (file === undefined ? await text(process.stdin) : await readTextFile(file));
  if (sql.trim() === '') throw new UsageError('The SQL is empty');
  return sql;
}

/** A stream contains only the rows of the last statement. */
export function warnOfEarlierRows(sql: string): void {
  if (earlierRows(sql))
    warn(`Warning: only the rows of the last statement are written; ${PROGRAM} sql --table shows all`);
}

async function run(client: CdpClient, sql: string, options: Options, signal: AbortSignal): Promise<void> {
  const { param: params = [], numbers } = options;
  const settings = { ...queryOptions(options), ...(numbers === undefined ? {} : { numbers }), signal };
  if (options.dryRun) return dryRun(client, sql, params, { ...queryOptions(options), signal });
  const isTable = options.table ?? options.expanded ?? (process.stdout.isTTY && formatOf(options) === undefined);
  const { expanded = 'auto', maxRows } = options;
  const layout: Layout = { expanded, width: terminalWidth(), more: 'more with --max-rows, all with --csv' };
  if (!isTable) {
    const format = formatOf(options) ?? 'csv';
    if (!returnsNothing(sql)) {
      warnOfEarlierRows(sql);
      return printChunks(rowsAs(format, client, sql, params, settings, (end) => printWarnings(end.warnings ?? [])));
    }
    // CSV cannot say what a statement has done, so it does not come as CSV.
    const { results, warnings } = await queryResults(client, sql, params, settings);
    printWarnings(warnings);
    for (const result of results) {
      if (result.columns.length === 0) process.stderr.write(`${tagLine(result)}\n`);
      // A rule of the table has put a SELECT in place of the statement.
      else writeLines(resultLines(result, layout));
    }
    if (format === 'json') process.stdout.write(EMPTY_JSON);
    return;
  }
  const started = performance.now();
  const { results, warnings } = await queryResults(client, sql, params, { ...settings, max_rows: maxRows });
  printWarnings(warnings);
  for (const result of results) writeLines(resultLines(result, layout));
  process.stderr.write(`Time: ${(performance.now() - started).toFixed(0)} ms\n`);
}

/** Runs SQL that is rolled back, and prints its impact. */
async function dryRun(
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  settings: QueryOptions,
): Promise<void> {
  const {
    type,
    row_count: rows,
    impact,
    warnings = [],
  } = await client.query(sql, params, { ...settings, dryRun: true });
  printWarnings(warnings);
  if (impact === undefined) throw new Error('The service does not support dry runs');
  printLines([
    `${type}: ${counted(rows, 'row')}, in ${impact.duration_ms} ms. Everything was rolled back`,
    ...impact.rows.map(
      ({ table, inserted, updated, deleted }) =>
        `${table}: ${inserted} inserted, ${updated} updated, ${deleted} deleted`,
    ),
    ...impact.locks.map(({ table, modes }) => `${table}: locks ${modes.join(', ')}`),
    ...impact.rewritten.map((table) => `${table}: rewritten`),
    ...(impact.dropped ?? []).map((table) => `${table}: dropped`),
    ...(impact.sequences ?? []).map((sequence) => `${sequence}: a sequence that was used, and is not set back`),
  ]);
}

const formatOf = ({ csv, json, ndjson }: Options): ExportFormat | undefined =>
  csv ? 'csv' : json ? 'json' : ndjson ? 'ndjson' : undefined;
