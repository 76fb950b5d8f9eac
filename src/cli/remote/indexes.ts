/** `cdp index create|list|drop`: the indexes of a table. */
import { Command } from 'commander';
import type { Index } from '../../contract/wire/indexes.js';
import { fitting } from '../terminal/grid.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';

export function indexCommand(): Command {
  return new Command('index')
    .description('Create, list and drop the indexes of a table')
    .addCommand(create())
    .addCommand(list())
    .addCommand(drop());
}

function create(): Command {
  const command = new Command('create')
    .description('Create an index on one or more columns')
    .argument('<TABLE>')
    .argument('<COLUMNS...>')
    .option('--unique', 'Reject rows that have the same values in these columns')
    .option('--name <NAME>', 'Name of the index (default: chosen by Postgres)')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (table: string, columns: string[]) => {
    const { unique, name } = command.opts<{ unique?: boolean; name?: string }>();
    const client = await clientFromOptions(command);
    const { index } = await client.createIndex(table, {
      columns,
      ...(unique === undefined ? {} : { unique }),
      ...(name === undefined ? {} : { name }),
    });
    print(command, index, [`Index ${index.name} created`]);
  });
}

function list(): Command {
  const command = new Command('list')
    .description('List the indexes of a table')
    .argument('<TABLE>')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (table: string) => {
    const indexes = await (await clientFromOptions(command)).indexes(table);
    print(command, indexes, indexLines(indexes));
  });
}

export const indexLines = (indexes: readonly Index[]): string[] =>
  fitting([{ name: 'index' }, { name: 'columns' }, { name: 'kind' }], indexes.map(cellsOf));

const cellsOf = ({ name, columns, primary, unique, partial, valid }: Index): string[] => [
  name,
  columns.map((column) => column ?? '(expression)').join(', '),
  [primary ? 'primary key' : unique && 'unique', partial && 'partial', !valid && 'not valid']
    .filter(Boolean)
    .join(', '),
];

function drop(): Command {
  const command = new Command('drop')
    .description('Drop an index')
    .argument('<TABLE>')
    .argument('<NAME>', 'Name from cdp index list')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (table: string, name: string) => {
    const { index } = await (await clientFromOptions(command)).dropIndex(table, name);
    print(command, { table, index }, [`Index ${index} dropped`]);
  });
}
