/**
 * `cdp sql`: runs SQL from an argument, a file or standard input, a table on a terminal, else rows for programs; or opens
 * the shell.
 */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import type { QueryOptions } from '../../client/sql.js';
import { connect, remoteOptions } from './connection.js';
import { EXIT, type ExitCode, ending, UsageError } from './outcome.js';
import { printChunks, printLines } from './output.js';
import { queryResults, resultLines } from './results.js';
import { type Format, rowsAs } from './rows.js';

interface Options {
  file?: string;
  param?: unknown[];
  csv?: boolean;
  json?: boolean;
  ndjson?: boolean;
  table?: boolean;
  expanded?: boolean;
  history: boolean;
  readOnly?: boolean;
  timeout?: number;
  maxRows: number;
}

export function sqlCommand(): Command {
  const command = new Command('sql')
    .description('Run SQL; a table on a terminal, CSV into a file or pipe. Without SQL, on a terminal, a shell')
    .argument('[SQL]', 'The statement (default: standard input, on a terminal a shell)')
    .option('-f, --file <FILE>', 'Of the statement')
    .option('--param <VALUE>', 'Of $1, then $2, …; taken as text, as Postgres reads it', collect)
    .addOption(
      new Option('--csv', 'A head and rows; an empty field is NULL, "" the empty string').conflicts([
        'json',
        'ndjson',
        'table',
      ]),
    )
    .addOption(new Option('--json', 'An array of objects').conflicts(['ndjson', 'table']))
    .addOption(new Option('--ndjson', 'An object a line').conflicts('table'))
    .addOption(new Option('--table', 'A table, as on a terminal'))
    .addOption(
      new Option(
        '-x, --expanded',
        'A table with a value a line (default: where the rows are wider than the terminal)',
      ).conflicts(['csv', 'json', 'ndjson']),
    )
    .option('--read-only', 'In a transaction that can change nothing')
    .option('--timeout <MS>', 'At most 60000 (default: 30000)', whole)
    .option('--max-rows <N>', 'Of a table; the other forms have no limit', whole, 1_000)
    .option('--no-history', 'Of the shell: keep nothing of what is typed')
    .addHelpText('after', EXAMPLES);
  return remoteOptions(command).action(async (argument: string | undefined) => {
    const options = command.opts<Options>();
    let sql: string | undefined;
    await ending(
      async () => {
        if (isShell(argument, options)) return openShell(await connect(command), options);
        sql = await statement(argument, options);
        const client = await connect(command);
        return namingParam(() => abortable((signal) => run(client, sql ?? '', options, signal)));
      },
      () => sql,
    );
  });
}

const EXAMPLES = `
Examples:
  cdp sql
  cdp sql 'SELECT * FROM customers WHERE age > $1' --param 30
  cdp sql -f report.sql > report.csv
  echo 'SELECT 1 AS one' | cdp sql --json`;

export const collect = (value: string, values: unknown[] = []): unknown[] => [...values, value];

export function whole(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('It takes a whole number from 1.');
  return Number(value);
}

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
  if (argument !== undefined && file !== undefined) throw new UsageError('Give the SQL or a file, not both');
  if (argument === undefined && file === undefined && process.stdin.isTTY) {
    throw new UsageError('What should run?', 'Give the SQL as an argument, a file with -f, or pipe it in');
  }
  const sql = argument ?? (file === undefined ? await text(process.stdin) : await textOf(file));
  if (sql.trim() === '') throw new UsageError('The SQL is empty');
  return sql;
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new UsageError(`There is no file ${file}`);
    if (code === 'EISDIR') throw new UsageError(`${file} is a folder`);
    throw error;
  }
}

/** Ctrl-C ends the statement, too. */
export async function abortable<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  process.once('SIGINT', abort).once('SIGTERM', abort);
  try {
    return await work(controller.signal);
  } finally {
    process.off('SIGINT', abort).off('SIGTERM', abort);
  }
}

/** What the service calls "params" is an option here. */
export async function namingParam<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CdpError) || error.code !== 'invalid_request' || !error.message.includes('"params"'))
      throw error;
    throw error.with(error.message, { hint: '"params" are the values of --param, one for each of $1, $2, …' });
  }
}

async function run(client: CdpClient, sql: string, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const settings = { ...queryOptions(options), signal };
  const { param: params = [] } = options;
  const isTable = options.table ?? options.expanded ?? (process.stdout.isTTY && formatOf(options) === undefined);
  if (!isTable) {
    await printChunks(rowsAs(formatOf(options) ?? 'csv', client, sql, params, settings));
    return EXIT.done;
  }
  const started = performance.now();
  const { expanded = 'auto', maxRows } = options;
  const more = `more with --max-rows, all with --csv`;
  for (const result of await queryResults(client, sql, params, { ...settings, max_rows: maxRows })) {
    printLines(resultLines(result, { expanded, width: process.stdout.columns, more }));
  }
  process.stderr.write(`Time: ${(performance.now() - started).toFixed(0)} ms\n`);
  return EXIT.done;
}

const formatOf = ({ csv, json, ndjson }: Options): Format | undefined =>
  csv ? 'csv' : json ? 'json' : ndjson ? 'ndjson' : undefined;
