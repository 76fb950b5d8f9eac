/** `cdp tables` and `cdp describe T`: list tables, and show the columns and indexes of one. */
import { Command } from 'commander';
import type { Table } from '../../contract/wire/tables.js';
import { clientFromOptions } from './profiles.js';
import { indexLines } from './indexes.js';
import { remoteOptions } from './remote-options.js';
import { fitting } from '../terminal/grid.js';
import { print } from '../terminal/output.js';
import { printable } from '../terminal/text.js';

export function tablesCommand(): Command {
  const command = new Command('tables').description('List the tables and views').option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const tables = await (await clientFromOptions(command)).tables();
    print(command, tables, listLines(tables));
  });
}

export function describeCommand(): Command {
  const command = new Command('describe')
    .description('Show the columns and indexes of a table or view')
    .argument('<TABLE>')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (name: string) => {
    const table = await (await clientFromOptions(command)).describe(name);
    const { indexes } = table;
    print(command, table, [...columnLines(table), ...(indexes.length === 0 ? [] : ['', ...indexLines(indexes)])]);
  });
}

const number = (name: string) => ({ name, isNumber: true });

export function listLines(tables: readonly Table[]): string[] {
  if (tables.length === 0) return ['No tables yet'];
  const rows = tables.map(({ name, kind, columns, approximate_rows: rows, comment }) => {
    return [name, kind, String(columns.length), rows === null ? '' : `~${rows}`, comment ?? ''];
  });
  return fitting([{ name: 'table' }, { name: 'kind' }, number('columns'), number('rows'), { name: 'comment' }], rows);
}

export function columnLines({ columns, comment }: Table): string[] {
  const rules = columns.map(({ not_null: notNull, default: defaultValue }) =>
    [...(notNull ? ['NOT NULL'] : []), ...(defaultValue === undefined ? [] : [`DEFAULT ${defaultValue}`])].join(' '),
  );
  const hasRules = rules.some((rule) => rule !== '');
  const rows = columns.map(({ name, type, comment: of }, i) => {
    return [name, type, ...(hasRules ? [rules[i] ?? ''] : []), of ?? ''];
  });
  const header = ['column', 'type', ...(hasRules ? ['rules'] : []), 'comment'];
  return [
    ...(comment === null ? [] : [printable(comment)]),
    ...fitting(
      header.map((name) => ({ name })),
      rows,
    ),
  ];
}
