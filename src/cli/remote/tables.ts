/** `cdp tables` and `cdp describe T`: lists tables, and shows the columns of one. */
import { Command } from 'commander';
import type { Table } from '../../contract/wire/tables.js';
import { connect } from '../../terminal/connection.js';
import { remoteOptions } from '../../terminal/options.js';
import { grid } from '../../terminal/grid.js';
import { runToExit } from '../../terminal/outcome.js';
import { printLines } from '../../terminal/output.js';
import { printable } from '../../terminal/text.js';

export function tablesCommand(): Command {
  const command = new Command('tables').description('List the tables and views').option('--json', 'Print JSON');
  return remoteOptions(command).action(() =>
    runToExit(async () => {
      const tables = await (await connect(command)).tables();
      printLines(command.opts<{ json?: boolean }>().json ? [JSON.stringify(tables)] : tableLines(tables));
    }),
  );
}

export function describeCommand(): Command {
  const command = new Command('describe')
    .description('Show the columns of a table or view')
    .argument('<TABLE>')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action((name: string) =>
    runToExit(async () => {
      const table = await (await connect(command)).describe(name);
      printLines(command.opts<{ json?: boolean }>().json ? [JSON.stringify(table)] : columnLines(table));
    }),
  );
}

const number = (name: string) => ({ name, isNumber: true });

export function tableLines(tables: readonly Table[]): string[] {
  if (tables.length === 0) return ['No tables yet'];
  const rows = tables.map(({ name, kind, columns, approximate_rows: rows, comment }) => {
    return [name, kind, String(columns.length), rows === null ? '' : `~${rows}`, comment ?? ''];
  });
  return grid([{ name: 'table' }, { name: 'kind' }, number('columns'), number('rows'), { name: 'comment' }], rows);
}

export function columnLines({ columns, comment }: Table): string[] {
  const rows = columns.map(({ name, type, comment: of }) => [name, type, of ?? '']);
  return [
    ...(comment === null ? [] : [printable(comment)]),
    ...grid([{ name: 'column' }, { name: 'type' }, { name: 'comment' }], rows),
  ];
}
