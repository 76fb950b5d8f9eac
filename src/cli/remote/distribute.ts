/** `cdp table distribute`: distributes the rows of a table over a Citus cluster. */
import { Command, Option } from 'commander';
import type { DistributeBody } from '../../contract/wire/distribution.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';

export function tableCommand(): Command {
  return new Command('table').description('Distribute a table over a Citus cluster').addCommand(distribute());
}

interface Options {
  by?: string;
  colocateWith?: string;
  reference?: true;
  dryRun?: true;
}

function distribute(): Command {
  const command = new Command('distribute')
    .description('Distribute the rows of a table over the workers of a Citus cluster')
    .argument('<TABLE>')
    .addOption(new Option('--by <COLUMN>', 'Distribute by the values of this column').conflicts(['reference', 'local']))
    .option('--colocate-with <TABLE>', 'Keep rows on the worker that has the rows of this table with the same value')
    .addOption(new Option('--reference', 'Keep a copy of the whole table on every node').conflicts(['by', 'local']))
    .addOption(new Option('--local', 'Move all rows back to the coordinator').conflicts(['by', 'reference']))
    .option('--dry-run', 'Show what prevents it; change nothing')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (table: string) => {
    const options = command.opts<Options & { local?: true }>();
    if (options.by === undefined && !options.reference && !options.local) {
      command.error('error: give one of --by COLUMN, --reference and --local');
    }
    const client = await clientFromOptions(command);
    const response = await client.distributeTable(table, bodyOf(options), options.dryRun ? { dryRun: true } : {});
    print(command, response, [`${options.dryRun ? 'Nothing prevents it: ' : ''}${response.message}`]);
  });
}

function bodyOf({ by, colocateWith, reference }: Options): DistributeBody {
  if (by === undefined) return { kind: reference ? 'reference' : 'local' };
  return { kind: 'hash', column: by, ...(colocateWith === undefined ? {} : { colocate_with: colocateWith }) };
}
