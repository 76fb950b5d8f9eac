/** `cdp feed`, `cdp feed on`, `cdp feed off`: which changes the project keeps for others to read. */
import { Command } from 'commander';
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { counted } from '../../contract/message-text.js';
import type { FeedBody, FeedState } from '../../contract/wire/changes.js';
import { UsageError } from '../exit.js';
import { print, warn } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { list, remoteOptions, whole } from './remote-options.js';

export function feedCommand(): Command {
  const command = new Command('feed')
    .description('Show, turn on and turn off the feed of changes, which cdp changes reads')
    // Without this word, the name of a subcommand that does not exist would be ignored.
    .argument('[WORD]', 'None or "show", to show the feed')
    .option('--json', 'Print JSON')
    .addCommand(on())
    .addCommand(off());
  return remoteOptions(command).action(async (word: string | undefined) => {
    if (word !== undefined && word !== 'show') throw new UsageError(`"${word}" is neither on, off nor show`);
    const feed = await (await clientFromOptions(command)).feed();
    print(command, { feed }, inWords(feed));
  });
}

interface OnOptions {
  tables?: string[];
  old?: true;
  retentionHours?: number;
  retentionMib?: number;
}

function on(): Command {
  const command = new Command('on')
    .description("Keep changes; what is not given has its default. The first time, the project's server restarts")
    .option('--tables <NAMES>', 'Only these tables: a,b, or schema.a (default: all, also those made later)', list)
    .option('--old', 'Keep the old row of updates and deletes too')
    .option('--retention-hours <N>', 'How long changes are kept (default: 72)', whole)
    .option('--retention-mib <N>', 'How many MiB of changes are kept at most (default: 1024)', whole)
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const { tables, old, retentionHours, retentionMib } = command.opts<OnOptions>();
    const settings: FeedBody = {
      ...(tables === undefined ? {} : { tables }),
      ...(old === undefined ? {} : { old }),
      ...(retentionHours === undefined ? {} : { retention_hours: retentionHours }),
      ...(retentionMib === undefined ? {} : { retention_mib: retentionMib }),
    };
    const feed = await (await clientFromOptions(command)).setFeed(settings);
    print(command, { feed }, inWords(feed));
  });
}

function off(): Command {
  const command = new Command('off')
    .description('Keep no more changes, and delete those that are kept')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const message = await (await clientFromOptions(command)).dropFeed();
    print(command, { feed: null }, [message.replace(/^t/, 'T')]);
  });
}

const STATUSES: Readonly<Record<FeedState['status'], string>> = {
  reading: 'reading: changes are stored as they are committed',
  at_rest: 'at rest: the server is stopped, and all its changes are stored',
  behind: 'behind: changes are not stored at the moment, and it is retried',
};

function inWords(feed: FeedState | null): string[] {
  if (feed === null) return ['The feed is off'];
  const { tables, old, retention_hours: hours, retention_mib: mib, bytes, start, end, status, reason } = feed;
  return [
    'The feed is on',
    `tables: ${tables === 'all' ? 'all, also those made later' : tables.join(', ')}`,
    old ? 'old: updates and deletes have the old row' : 'no old: updates and deletes have the key only',
    `kept for ${counted(hours, 'hour')}, at most ${mib} MiB; now ${counted(bytes, 'byte')}`,
    STATUSES[status] + (reason === null ? '' : `: ${reason}`),
    ...(feed.behind_bytes === null ? [] : [`WAL that the server keeps for it: ${counted(feed.behind_bytes, 'byte')}`]),
    ...(start === null || end === null ? [] : [`from ${start} to ${end}`]),
    ...(feed.table_list ?? []).map(
      ({ name, changes, old: hasOld }) =>
        `${name}: ${changes === 'all' ? 'all changes' : 'inserts and truncates only: it has no key'}${hasOld ? ', with old rows' : ''}`,
    ),
    ...missingIn(feed, tables).map((name) => `${name}: no such table; its changes are kept once it is made`),
  ];
}

/** Those that the feed does not have now; none while the server is stopped, because nobody knows then. */
function missingIn({ table_list: there }: FeedState, tables: 'all' | readonly string[]): readonly string[] {
  return tables === 'all' || there === null ? [] : tables.filter((name) => !there.some((table) => table.name === name));
}

/** For those who wait for changes of tables: a mistaken name has none, and is no error, because a table may be made later. */
export async function warnOfMissing(client: CdpClient, tables: 'all' | readonly string[] = 'all'): Promise<void> {
  if (tables === 'all') return;
  const feed = await client.feed().catch((error: unknown) => {
    // Who may read changes may not have schema:read.
    if (error instanceof CdpError && error.code === 'insufficient_scope') return null;
    throw error;
  });
  if (feed !== null) for (const name of missingIn(feed, tables)) warn(`Warning: the feed has no table "${name}" now`);
}
