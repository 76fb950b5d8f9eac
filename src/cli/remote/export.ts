/** `cdp export "SELECT …" -o FILE`: the rows of a query or a table into a file, which is there when it is whole. */
import { Command, Option } from 'commander';
import { connect, remoteOptions } from './connection.js';
import { EXIT, type ExitCode, ending, UsageError } from './outcome.js';
import { isStdout, outputTo } from './output-file.js';
import { counted, grouped, ProgressLine } from './progress.js';
import { type Format, FORMATS, rowsAs } from './rows.js';
import { RowCounter } from './row-counter.js';
import { abortable, collect, namingParam, whole } from './sql.js';

interface Options {
  output: string;
  table?: string;
  param?: unknown[];
  format?: Format;
  timeout: number;
  json?: boolean;
}

export function exportCommand(): Command {
  const command = new Command('export')
    .description('Write the rows of a query or a table into a file: CSV, NDJSON or JSON, also gzipped')
    .argument('[SQL]', 'The query')
    .requiredOption('-o, --output <FILE>', 'As .csv, .ndjson, .jsonl or .json, with .gz packed; - is standard output')
    .option('--table <NAME>', 'All of a table, in place of a query')
    .option('--param <VALUE>', 'Of $1, then $2, …; taken as text', collect)
    .addOption(new Option('--format <NAME>', 'Default: by the name of the file').choices([...FORMATS]))
    .option('--timeout <MS>', 'At most 60000', whole, 60_000)
    .option('--json', 'Print the result as JSON')
    .addHelpText('after', EXAMPLES);
  return remoteOptions(command).action((sql: string | undefined) => {
    const options = command.opts<Options>();
    return ending(
      () => namingParam(() => abortable((signal) => exportRows(command, queryOf(sql, options), options, signal))),
      () => sql,
    );
  });
}

const EXAMPLES = `
Examples:
  cdp export --table customers -o customers.csv.gz
  cdp export 'SELECT email FROM customers WHERE age > $1' --param 30 -o emails.ndjson`;

function queryOf(sql: string | undefined, { table }: Options): string {
  if ((sql === undefined) === (table === undefined)) throw new UsageError('Give either a query or --table');
  return sql ?? `SELECT * FROM "${(table ?? '').replaceAll('"', '""')}"`;
}

function formatOf({ format, output }: Options): Format {
  if (isStdout(output)) return format ?? 'csv';
  const ending = /\.(csv|ndjson|jsonl|json)(?:\.gz)?$/i.exec(output)?.[1]?.toLowerCase();
  const found = format ?? (ending === 'jsonl' ? 'ndjson' : FORMATS.find((known) => known === ending));
  if (found === undefined) throw new UsageError(`What format is ${output}?`, `Say --format ${FORMATS.join('|')}`);
  return found;
}

async function exportRows(command: Command, sql: string, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const { output, param = [], timeout, json } = options;
  const format = formatOf(options);
  const write = await outputTo(output);
  const client = await connect(command);
  const rows = rowsAs(format, client, sql, param, { read_only: true, timeout_ms: timeout, signal });
  // The first piece comes before the file: a query that is refused leaves the folder as it was.
  const first = await rows.next();
  const counter = new RowCounter(format);
  const progress = new ProgressLine(() => ({ rows: counter.rows, share: null, refused: 0 }));
  const passing = async function* () {
    for (let next = first; !next.done; next = await rows.next()) {
      const bytes = typeof next.value === 'string' ? Buffer.from(next.value) : next.value;
      counter.add(bytes);
      yield bytes;
    }
  };
  try {
    await write(passing());
  } finally {
    progress.end();
  }
  const { seconds } = progress;
  const { rows: count, bytes } = counter;
  const said = isStdout(output) ? process.stderr : process.stdout;
  said.write(
    json
      ? `${JSON.stringify({ file: output, rows: count, bytes, seconds: Number(seconds.toFixed(3)) })}\n`
      : `${counted(count)} in ${output}, ${seconds.toFixed(1)} s, ${grouped(count / seconds)} rows/s\n`,
  );
  return EXIT.done;
}
