/** `cdp webhook …`: endpoints that get the changes of a project. */
import { Command, Option } from 'commander';
import type { WebhookWithSecret } from '../../client/webhooks.js';
import { counted } from '../../contract/message-text.js';
import { CHANGE_OPERATIONS, type ChangeOperation } from '../../contract/wire/changes.js';
import type { ChangeWebhookBody, Webhook } from '../../contract/wire/webhooks.js';
import { EXIT, ExitError, UsageError } from '../exit.js';
import { fitting } from '../terminal/grid.js';
import { print, warn } from '../terminal/output.js';
import { warnOfMissing } from './feed.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';

const ID = 'ID from cdp webhook list';

export function webhookCommand(): Command {
  return new Command('webhook')
    .description('Send the changes of a project to endpoints')
    .addCommand(create())
    .addCommand(list())
    .addCommand(show())
    .addCommand(change())
    .addCommand(active('pause', 'Send nothing more, until it is resumed', false))
    .addCommand(active('resume', 'Go on where it was, and try again at once', true))
    .addCommand(rotate())
    .addCommand(remove())
    .addCommand(test())
    .addCommand(deliveries())
    .addCommand(replay());
}

const narrowed = (command: Command): Command =>
  command
    .option('--tables <NAMES>', 'Only these tables, separated by commas; all: every table of the feed', words)
    .option('--ops <OPS>', `Only these kinds of changes, of ${CHANGE_OPERATIONS.join(',')}`, operations)
    .option('--columns <NAMES>', 'Only these columns, besides those of keys; all: every column', words);

function words(text: string): 'all' | string[] {
  return text === 'all' ? text : text.split(',');
}

function operations(text: string): ChangeOperation[] {
  return text.split(',').map((word) => {
    const known = CHANGE_OPERATIONS.find((operation) => operation === word);
    if (known === undefined) throw new UsageError(`"${word}" is none of ${CHANGE_OPERATIONS.join(', ')}`);
    return known;
  });
}

type Narrowing = Pick<ChangeWebhookBody, 'tables' | 'ops' | 'columns'>;

function narrowingOf(command: Command): Narrowing {
  const { tables, ops, columns } = command.opts<Narrowing>();
  return {
    ...(tables === undefined ? {} : { tables }),
    ...(ops === undefined ? {} : { ops }),
    ...(columns === undefined ? {} : { columns }),
  };
}

function create(): Command {
  const command = new Command('create')
    .description('Send changes to an endpoint; prints the secret that signs them, once')
    .argument('<URL>', 'An https URL')
    .option('--from <CURSOR>', 'Begin after this cursor (default: with changes from now on)')
    .option('--json', 'Print JSON');
  return remoteOptions(narrowed(command)).action(async (url: string) => {
    const { from } = command.opts<{ from?: string }>();
    const client = await clientFromOptions(command);
    const body = { url, ...narrowingOf(command), ...(from === undefined ? {} : { from }) };
    const created = await client.webhooks.create(body);
    printSecret(command, created, `Webhook ${created.webhook.id} created`);
    await warnOfMissing(client, body.tables);
  });
}

function printSecret(command: Command, created: WebhookWithSecret, what: string): void {
  print(command, created, [what, `secret  ${created.secret}`]);
  if (!command.opts<{ json?: boolean }>().json) warn('The secret is not shown again.');
}

function list(): Command {
  const command = new Command('list').description('List the webhooks').option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const webhooks = await (await clientFromOptions(command)).webhooks.list();
    const heads = ['id', 'status', 'URL', 'confirmed'].map((name) => ({ name }));
    const rows = webhooks.map(({ id, status, url, delivered_at: at }) => [id, status, url, at ?? 'never']);
    print(command, webhooks, webhooks.length === 0 ? ['No webhooks yet'] : fitting(heads, rows));
  });
}

function show(): Command {
  const command = new Command('show')
    .description('Show a webhook, and how far it is')
    .argument('<ID>', ID)
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    const webhook = await (await clientFromOptions(command)).webhooks.get(id);
    print(command, webhook, inWords(webhook));
  });
}

function change(): Command {
  const command = new Command('change')
    .description('Change what a webhook gets, and where; what is not given stays')
    .argument('<ID>', ID)
    .option('--url <URL>', 'Another https URL')
    .option('--json', 'Print JSON');
  return remoteOptions(narrowed(command)).action(async (id: string) => {
    const { url } = command.opts<{ url?: string }>();
    const body = { ...narrowingOf(command), ...(url === undefined ? {} : { url }) };
    if (Object.keys(body).length === 0) throw new UsageError('Give --url, --tables, --ops or --columns');
    const client = await clientFromOptions(command);
    const webhook = await client.webhooks.change(id, body);
    print(command, webhook, inWords(webhook));
    await warnOfMissing(client, body.tables);
  });
}

function active(name: string, description: string, isActive: boolean): Command {
  const command = new Command(name).description(description).argument('<ID>', ID).option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    const webhook = await (await clientFromOptions(command)).webhooks.change(id, { active: isActive });
    print(command, webhook, [`Webhook ${id} is ${webhook.status}`]);
  });
}

function rotate(): Command {
  const command = new Command('rotate')
    .description('Give a webhook a new secret, which is printed once')
    .argument('<ID>', ID)
    .addOption(
      new Option('--previous-hours <N>', 'The previous secret also signs for so long (default: 24)').argParser(Number),
    )
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    const { previousHours: hours } = command.opts<{ previousHours?: number }>();
    const client = await clientFromOptions(command);
    const rotated = await client.webhooks.rotateSecret(id, hours === undefined ? {} : { previous_hours: hours });
    const until = rotated.webhook.previous_secret_until;
    const previous = until === null ? 'the previous one has ended' : `the previous one also signs until ${until}`;
    printSecret(command, rotated, `Webhook ${id} has a new secret; ${previous}`);
  });
}

function remove(): Command {
  const command = new Command('delete')
    .description('Delete a webhook')
    .argument('<ID>', ID)
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    await (await clientFromOptions(command)).webhooks.delete(id);
    print(command, { id }, [`Webhook ${id} deleted`]);
  });
}

function test(): Command {
  const command = new Command('test')
    .description('Send a message without changes, and show the answer; fails if the endpoint does not confirm it')
    .argument('<ID>', ID)
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    const result = await (await clientFromOptions(command)).webhooks.test(id);
    const { delivered, status, error, duration_ms: ms } = result;
    print(command, result, [delivered ? `Confirmed with ${status} after ${ms} ms` : `Not confirmed: ${error}`]);
    if (!delivered) throw new ExitError(EXIT.refused, 'The endpoint has not confirmed the message');
  });
}

function deliveries(): Command {
  const command = new Command('deliveries')
    .description('List the last attempts, the newest first')
    .argument('<ID>', ID)
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    const list = await (await clientFromOptions(command)).webhooks.deliveries(id);
    const heads = ['time', 'changes', 'attempt', 'ms', 'outcome', 'webhook-id'].map((name) => ({ name }));
    const rows = list.map(({ at, changes, attempt, duration_ms: ms, status, error, message_id: message }) => [
      ...[at, String(changes), String(attempt), String(ms)],
      ...[error ?? `confirmed with ${status}`, message],
    ]);
    print(command, list, list.length === 0 ? ['No attempts yet'] : fitting(heads, rows));
  });
}

function replay(): Command {
  const command = new Command('replay')
    .description('Send the changes after a cursor again; also resumes it')
    .argument('<ID>', ID)
    .requiredOption('--from <CURSOR>', 'A cursor of the feed')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (id: string) => {
    const { from } = command.opts<{ from: string }>();
    const webhook = await (await clientFromOptions(command)).webhooks.replay(id, from);
    print(command, webhook, [`Webhook ${id} sends changes after ${webhook.cursor} again`]);
  });
}

const listed = (names: 'all' | readonly string[]): string => (names === 'all' ? 'all' : names.join(', '));

function inWords(webhook: Webhook): string[] {
  const { id, url, tables, ops, columns, status, reason, cursor, attempts, error, reads_as: role } = webhook;
  const until = webhook.previous_secret_until;
  return [
    `${id}  ${status}`,
    `url        ${url}`,
    `tables     ${listed(tables)}`,
    `ops        ${ops.length === CHANGE_OPERATIONS.length ? 'all' : ops.join(', ')}`,
    `columns    ${listed(columns)}`,
    `reads as   ${role}`,
    `confirmed  up to ${cursor}, ${webhook.delivered_at === null ? 'nothing sent yet' : `last at ${webhook.delivered_at}`}`,
    ...(until === null ? [] : [`secret     the previous one also signs until ${until}`]),
    ...(error === null ? [] : [`failed     ${counted(attempts, 'attempt')} since ${webhook.failing_since}: ${error}`]),
    ...(webhook.next_attempt_at === null ? [] : [`next       at ${webhook.next_attempt_at}`]),
    ...(reason === null ? [] : [`reason     ${reason}`]),
  ];
}
