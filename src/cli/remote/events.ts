/** `cdp events`, `cdp events on`, `cdp events off`: whether and how the project takes events of the tracking API. */
import { Command, Option } from 'commander';
import type { EventSettings } from '../../contract/wire/events.js';
import { UsageError } from '../exit.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';

export function eventsCommand(): Command {
  const command = new Command('events')
    .description('Show, turn on and turn off the tracking API, which takes events')
    // Without this word, the name of a subcommand that does not exist would be ignored.
    .argument('[WORD]', 'None, to show the settings')
    .option('--json', 'Print JSON')
    .addCommand(on())
    .addCommand(off());
  return remoteOptions(command).action(async (word: string | undefined) => {
    if (word !== undefined) throw new UsageError(`"${word}" is neither on nor off`);
    const events = await (await clientFromOptions(command)).events();
    print(command, { events }, inWords(events));
  });
}

function on(): Command {
  const command = new Command('on')
    .description('Take events; what is not given has its default')
    .addOption(
      new Option(
        '--mode <MODE>',
        'Whether properties become columns, or stay together as JSONB (default: columns)',
      ).choices(['columns', 'json']),
    )
    .addOption(
      new Option(
        '--schema <SCHEMA>',
        'Whether keys of web pages also make tables and columns (default: closed)',
      ).choices(['closed', 'open']),
    )
    .option('--no-ip', "Do not store the senders' addresses")
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const { mode, schema, ip } = command.opts<Partial<EventSettings>>();
    const client = await clientFromOptions(command);
    const events = await client.setEvents({
      ...(mode === undefined ? {} : { mode }),
      ...(schema === undefined ? {} : { schema }),
      ...(ip === false ? { ip } : {}),
    });
    print(command, { events }, inWords(events));
  });
}

function off(): Command {
  const command = new Command('off').description('Take no more events; the tables stay').option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    await (await clientFromOptions(command)).dropEvents();
    print(command, { events: null }, inWords(null));
  });
}

function inWords(events: EventSettings | null): string[] {
  if (events === null) return ['Events are off'];
  const { mode, schema, ip } = events;
  return [
    'Events are on',
    mode === 'columns' ? 'mode columns: each property is a column' : 'mode json: properties stay together, as JSONB',
    `schema ${schema}: keys of web pages make ${schema === 'closed' ? 'no tables or columns' : 'tables and columns'}`,
    ip ? 'ip: the address of the sender is stored' : 'no ip: the address of the sender is not stored',
  ];
}
