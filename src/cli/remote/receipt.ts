/** `cdp receipt KEY…`: shows the outcomes of the batches with these idempotency keys. */
import { Command } from 'commander';
import { LIMITS } from '../../contract/limits.js';
import type { Receipt } from '../../contract/wire/receipts.js';
import { EXIT } from '../exit.js';
import { fitting } from '../terminal/grid.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';

export function receiptCommand(): Command {
  const command = new Command('receipt')
    .description('Show whether batches with these idempotency keys were stored')
    .argument('<KEYS...>', 'Idempotency keys')
    .option('--table <NAME>', 'Only batches of this table')
    .option('--settle', 'If nothing is stored under a key, refuse that key from now on')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (keys: string[]) => {
    const { table = null, settle = false } = command.opts<{ table?: string; settle?: boolean }>();
    const client = await clientFromOptions(command);
    const receipts: Receipt[] = [];
    for (let i = 0; i < keys.length; i += LIMITS.keysPerQuery) {
      receipts.push(...(await client.receipts(table, keys.slice(i, i + LIMITS.keysPerQuery), { settle })));
    }
    const columns = ['key', 'status', 'table', 'rows', 'since'].map((name) => ({ name }));
    print(command, receipts, fitting(columns, receipts.map(cellsOf)));
    if (receipts.some(({ status }) => status !== 'stored')) process.exitCode = EXIT.someRefused;
  });
}

function cellsOf(receipt: Receipt): string[] {
  const { key, status } = receipt;
  if (status === 'running') return [key, status, '', '', ''];
  if (status === 'not_stored') return [key, receipt.settled ? 'settled' : status, '', '', receipt.since];
  return [key, status, receipt.table ?? receipt.operation, String(receipt.rows ?? ''), receipt.stored_at];
}
