/** `cdp sql`: runs SQL from an argument, a file or standard input; a table on a terminal, else rows for programs. */
import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { CdpClient } from '../../client/client.js';
import type { QueryResult } from '../../client/sql.js';
import { connect, remoteOptions } from './connection.js';
import { grid } from './grid.js';
import { EXIT, type ExitCode, ending, UsageError } from './outcome.js';
import { type Format, rowsAs } from './rows.js';

interface Options {
  file?: string;
  param: unknown[];
  csv?: boolean;
  json?: boolean;
  ndjson?: boolean;
  table?: boolean;
  readOnly?: boolean;
  timeout?: number;
  maxRows: number;
}

export function sqlCommand(): Command {
  const command = new Command('sql')
    .description('Run SQL; a table on a terminal, CSV into a file or pipe')
    .argument('[SQL]', 'The statement (default: standard input)')
    .option('-f, --file <FILE>', 'Of the statement')
    .option('--param <VALUE>', 'Of $1, then $2, …; taken as text, as Postgres reads it', collect, [])
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
    .option('--read-only', 'In a transaction that can change nothing')
    .option('--timeout <MS>', 'At most 60000 (default: 30000)', whole)
    .option('--max-rows <N>', 'Of a table; the other forms have no limit', whole, 1_000);
  return remoteOptions(command).action(async (argument: string | undefined) => {
    const options = command.opts<Options>();
    let sql: string | undefined;
    await ending(
      async () => {
        sql = await statement(argument, options);
        const client = await connect(command);
        return abortable((signal) => run(client, sql ?? '', options, signal));
      },
      () => sql,
    );
  });
}

export const collect = (value: string, values: unknown[]): unknown[] => [...values, value];

export function whole(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('It takes a whole number from 1.');
  return Number(value);
}

async function statement(argument: string | undefined, { file }: Options): Promise<string> {
  if (argument !== undefined && file !== undefined) throw new UsageError('Give the SQL or a file, not both');
  if (argument === undefined && file === undefined && process.stdin.isTTY) {
    throw new UsageError('What should run?', 'Give the SQL as an argument, a file with -f, or pipe it in');
  }
  const sql = argument ?? (file === undefined ? await text(process.stdin) : await readFile(file, 'utf8'));
  if (sql.trim() === '') throw new UsageError('The SQL is empty');
  return sql;
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

async function run(client: CdpClient, sql: string, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const { readOnly, timeout } = options;
  const settings = {
    ...(readOnly === undefined ? {} : { read_only: readOnly }),
    ...(timeout === undefined ? {} : { timeout_ms: timeout }),
    signal,
  };
  const isTable = options.table ?? (process.stdout.isTTY && formatOf(options) === undefined);
  if (isTable) {
    const started = performance.now();
    const wanted = { ...settings, max_rows: options.maxRows, row_mode: 'array' as const };
    const result = await client.query<unknown[]>(sql, options.param, wanted);
    for (const each of result.results ?? [result]) showTable(each);
    process.stderr.write(`Time: ${(performance.now() - started).toFixed(0)} ms\n`);
    return EXIT.done;
  }
  // Whoever reads may have had enough: `| head` is no failure.
  let isClosed = false;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    isClosed = true;
  });
  for await (const chunk of rowsAs(formatOf(options) ?? 'csv', client, sql, options.param, settings)) {
    if (isClosed) break;
    if (!process.stdout.write(chunk))
      await Promise.race([once(process.stdout, 'drain'), once(process.stdout, 'close')]);
  }
  return EXIT.done;
}

const formatOf = ({ csv, json, ndjson }: Options): Format | undefined =>
  csv ? 'csv' : json ? 'json' : ndjson ? 'ndjson' : undefined;

const NUMBERS = /^(INTEGER|FLOAT|integer|smallint|real|numeric.*|oid)$/;

function showTable({ type, rows, columns, row_count: count, truncated }: QueryResult<unknown[]>): void {
  if (columns.length === 0) {
    process.stdout.write(`${type}${/^(INSERT|UPDATE|DELETE|MERGE|COPY)$/.test(type) ? ` ${count}` : ''}\n`);
    return;
  }
  const heads = columns.map(({ name, type: of }) => ({ name, isNumber: NUMBERS.test(of) }));
  const lines = grid(
    heads,
    rows.map((row) => row.map(cell)),
  );
  process.stdout.write(lines.map((line) => `${line}\n`).join(''));
  process.stdout.write(
    `(${count} ${count === 1 ? 'row' : 'rows'}${truncated ? ', and more: --max-rows, or --csv for all' : ''})\n`,
  );
}

const cell = (value: unknown): string =>
  value === null ? 'NULL' : typeof value === 'string' ? value : JSON.stringify(value);
