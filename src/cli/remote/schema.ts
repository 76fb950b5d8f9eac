/** `cdp tables` and `cdp describe T`: what there is. */
import { Command } from 'commander';
import { connect, remoteOptions } from './connection.js';
import { grid } from './grid.js';
import { ending } from './outcome.js';

const write = (lines: readonly string[]): void => void process.stdout.write(lines.map((line) => `${line}\n`).join(''));

export function tablesCommand(): Command {
  const command = new Command('tables').description('List the tables and views').option('--json', 'Print JSON');
  return remoteOptions(command).action(() =>
    ending(async () => {
      const tables = await (await connect(command)).tables();
      if (command.opts<{ json?: boolean }>().json) return write([JSON.stringify(tables)]);
      const rows = tables.map(({ name, kind, columns, approximate_rows: rows, comment }) => {
        return [name, kind, String(columns.length), rows === null ? '' : `~${rows}`, comment ?? ''];
      });
      const heads = [{ name: 'table' }, { name: 'kind' }, number('columns'), number('rows'), { name: 'comment' }];
      write(rows.length === 0 ? ['No tables yet'] : grid(heads, rows));
    }),
  );
}

const number = (name: string) => ({ name, isNumber: true });

export function describeCommand(): Command {
  const command = new Command('describe')
    .description('Show the columns of a table or view')
    .argument('<TABLE>')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action((name: string) =>
    ending(async () => {
      const table = await (await connect(command)).describe(name);
      if (command.opts<{ json?: boolean }>().json) return write([JSON.stringify(table)]);
      const rows = table.columns.map(({ name: column, type, comment }) => [column, type, comment ?? '']);
      if (table.comment !== null) write([table.comment]);
      write(grid([{ name: 'column' }, { name: 'type' }, { name: 'comment' }], rows));
    }),
  );
}
