/** `cdp query save|list|show|run|delete`: SQL of the project that its members run by name. */
import { Command, InvalidArgumentError, Option } from 'commander';
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { rawJson } from '../../client/json.js';
import { COLUMN_TYPES, type ColumnType } from '../../contract/column-types.js';
import type { Query, QueryBody, QueryParameter } from '../../contract/wire/queries.js';
import { explainingSql } from '../exit.js';
import { fitting, terminalWidth } from '../terminal/grid.js';
import { print, printChunks, printLines, writeLines } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { milliseconds, remoteOptions, whole } from './remote-options.js';
import { printWarnings, resultLines, resultsIn } from './results.js';
import { named, savedSql } from './timed.js';

export function queryCommand(): Command {
  return new Command('query')
    .description('Save, list, show, run and delete queries that belong to the project')
    .addCommand(save())
    .addCommand(list())
    .addCommand(show())
    .addCommand(run())
    .addCommand(remove());
}

function save(): Command {
  const command = named('save', 'Save a query, or replace it; what is not given has its default')
    .argument('[SQL]', 'With $1, $2, … for its parameters')
    .option('-f, --file <FILE>', 'File that holds the SQL')
    .option('--param <NAME=TYPE>', 'The parameter $1, then $2, … (repeatable)', parameter)
    .option('--description <TEXT>', 'What it is for')
    .option('--writes', 'It changes data, so it runs as the writer');
  return remoteOptions(command).action(async (name: string, argument: string | undefined) => {
    const { param, description, writes } = command.opts<{
      param?: QueryParameter[];
      description?: string;
      writes?: true;
    }>();
    const sql = await savedSql(command, argument, 'SELECT');
    const body: QueryBody = {
      sql,
      ...(param && { parameters: param }),
      ...(description === undefined ? {} : { description }),
      ...(writes && { writes }),
    };
    const client = await clientFromOptions(command);
    const query = await explainingSql(sql, () => client.saveQuery(name, body));
    print(command, query, [`Query ${name} saved`]);
  });
}

function parameter(value: string, before: QueryParameter[] = []): QueryParameter[] {
  const [, name, typed = ''] = /^([^=]+)=(.*)$/.exec(value) ?? [];
  const type = COLUMN_TYPES.find((known) => known === typed.toUpperCase());
  if (name === undefined || type === undefined)
    throw new InvalidArgumentError(`Expected NAME=TYPE with one of ${COLUMN_TYPES.join(', ')}.`);
  return [...before, { name, type }];
}

function list(): Command {
  const command = new Command('list').description('List the saved queries').option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const queries = await (await clientFromOptions(command)).queries();
    const heads = ['query', 'parameters', 'saved', 'by', 'description'].map((head) => ({ name: head }));
    const rows = queries.map((query) => [
      ...[query.name, parametersOf(query), query.updated_at, query.updated_by, query.description ?? ''],
    ]);
    print(command, queries, queries.length === 0 ? ['No saved queries yet'] : fitting(heads, rows));
  });
}

const parametersOf = ({ parameters }: Query): string =>
  parameters.map(({ name, type }) => `${name} ${type}`).join(', ');

function show(): Command {
  const command = named('show', 'Show a saved query');
  return remoteOptions(command).action(async (name: string) => {
    const query = await (await clientFromOptions(command)).savedQuery(name);
    const { sql, description, parameters, writes, updated_by: by, updated_at: at } = query;
    print(command, query, [
      `${name}${description === null ? '' : `: ${description}`}`,
      `Saved by ${by}, ${at}; runs as the ${writes ? 'writer' : 'reader'}`,
      ...(parameters.length === 0 ? [] : [`Parameters: ${parametersOf(query)}`]),
      '',
      sql,
    ]);
  });
}

interface RunOptions {
  param?: Map<string, string>;
  csv?: true;
  json?: true;
  table?: true;
  timeout?: number;
  maxRows: number;
}

function run(): Command {
  const command = new Command('run')
    .description('Run a saved query, and print a table on a terminal, otherwise CSV')
    .argument('<NAME>')
    .option('--param <NAME=VALUE>', 'A value of a parameter (repeatable); null is NULL', value)
    .addOption(new Option('--csv', 'Print CSV, with all rows').conflicts(['json', 'table']))
    .addOption(new Option('--json', 'Print the response as JSON').conflicts('table'))
    .option('--table', 'Print a table, as on a terminal')
    .option('--timeout <TIME>', 'Time limit, at most 60s; a number alone is in ms (default: 30s)', milliseconds)
    .option('--max-rows <N>', 'Rows in a table or in JSON; CSV has no limit', whole, 1_000);
  return remoteOptions(command).action(async (name: string) => {
    const { param = new Map<string, string>(), csv, json, table, timeout, maxRows } = command.opts<RunOptions>();
    const client = await clientFromOptions(command);
    const values = await typed(client, name, param);
    const limit = timeout === undefined ? {} : { timeout_ms: timeout };
    if (csv || !(json || table || process.stdout.isTTY)) {
      let hasColumns = false;
      const chunks = client.runQueryCsv(name, values, limit);
      await printChunks(tap(chunks, () => (hasColumns = true)));
      if (!hasColumns) process.stderr.write(`Query ${name} has run, and returns no rows\n`);
      return;
    }
    const options = { ...limit, max_rows: maxRows };
    if (json) return printLines([await client.runQueryJson(name, values, options)]);
    const { results, warnings } = resultsIn(await client.runQueryJson(name, values, { ...options, row_mode: 'array' }));
    printWarnings(warnings);
    const layout = { expanded: 'auto', width: terminalWidth(), more: 'more with --max-rows, all with --csv' } as const;
    for (const result of results) writeLines(resultLines(result, layout));
  });
}

/** @param seen called for each chunk */
async function* tap<T>(chunks: AsyncIterable<T>, seen: () => void): AsyncGenerator<T> {
  for await (const chunk of chunks) {
    seen();
    yield chunk;
  }
}

function value(text: string, before: ReadonlyMap<string, string> = new Map()): Map<string, string> {
  const [, name, given] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || given === undefined) throw new InvalidArgumentError('Expected NAME=VALUE.');
  if (before.has(name)) throw new InvalidArgumentError(`"${name}" has two values.`);
  return new Map(before).set(name, given);
}

/** As JSON, with every digit; a token that may only run queries does not learn the types of their parameters. */
async function typed(
  client: CdpClient,
  name: string,
  given: ReadonlyMap<string, string>,
): Promise<Record<string, unknown>> {
  if (given.size === 0) return {};
  const types = await typesOf(client, name);
  return Object.fromEntries([...given].map(([key, text]) => [key, valueOf(text, types?.get(key))]));
}

/** @returns null: the token may not know them */
async function typesOf(client: CdpClient, name: string): Promise<ReadonlyMap<string, ColumnType> | null> {
  try {
    const { parameters } = await client.savedQuery(name);
    return new Map(parameters.map(({ name: key, type }) => [key, type]));
  } catch (error) {
    if (error instanceof CdpError && error.code === 'insufficient_scope') return null;
    throw error;
  }
}

/** Text stays text; anything else is JSON, if it can be. */
function valueOf(text: string, type: ColumnType | undefined): unknown {
  if (text === 'null') return null;
  return type === 'TEXT' || type === 'TIMESTAMP' || !isJson(text) ? text : rawJson(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function remove(): Command {
  const command = named('delete', 'Delete a saved query');
  return remoteOptions(command).action(async (name: string) => {
    await (await clientFromOptions(command)).deleteQuery(name);
    print(command, { query: name }, [`Query ${name} deleted`]);
  });
}
