/** `cdp alter TABLE COLUMN TYPE`: changes the type of a column, or reports the values that prevent it. */
import { Argument, Command } from 'commander';
import type { AlterColumn } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { COLUMN_TYPES, type ColumnType } from '../../contract/column-types.js';
import { UsageError } from '../exit.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { collect, remoteOptions } from './remote-options.js';

interface Options {
  map?: string[];
}

export function alterCommand(): Command {
  const command = new Command('alter')
    .description('Change the type of a column; every value is kept, or nothing is changed')
    .argument('<TABLE>')
    .argument('<COLUMN>')
    .addArgument(new Argument('<TYPE>').choices(COLUMN_TYPES).argParser((type: string) => type.toUpperCase()))
    .option('--map <FROM=TO>', 'Replace this value before converting; an empty TO means NULL (repeatable)', collect)
    .option('--json', 'Print JSON')
    .addHelpText('after', EXAMPLE);
  return remoteOptions(command).action(async (table: string, column: string, type: ColumnType) => {
    const { map } = command.opts<Options>();
    const change: AlterColumn = { new_type: type, ...(map === undefined ? {} : { map: mapOf(map) }) };
    const client = await clientFromOptions(command);
    const response = await client.alterColumn(table, column, change, { return: 'values' }).catch(explainMap);
    print(command, response.column, [`Column ${response.column.name} of ${table} is ${response.column.type}`]);
  });
}

const EXAMPLE = `
Example:
  cdp alter customers active BOOLEAN --map yes=true --map no=false --map n/a=`;

/** Replaces the service's hint about "map", which is an option here. */
function explainMap(error: unknown): never {
  if (!(error instanceof CdpError) || error.values.length === 0) throw error;
  throw error.with(error.message, { hint: 'Say what they become: --map VALUE=NEW, or --map VALUE= for NULL' });
}

/** @throws UsageError */
function mapOf(pairs: readonly string[]): Record<string, string | null> {
  const entries = pairs.map((pair) => {
    // Splits at the last "=", which is more likely in a value than in its replacement.
    const end = pair.lastIndexOf('=');
    if (end === -1) throw new UsageError(`--map takes FROM=TO, not "${pair}"`);
    return [pair.slice(0, end), pair.slice(end + 1) || null] as const;
  });
  const twice = entries.find(([from], i) => entries.findIndex(([other]) => other === from) < i);
  if (twice !== undefined) throw new UsageError(`--map gives "${twice[0]}" twice`);
  return Object.fromEntries(entries);
}
