/** `cdp role create|list|show|drop`: the roles that a project makes. */
import { Command } from 'commander';
import { counted } from '../../contract/message-text.js';
import { fitting } from '../terminal/grid.js';
import { print, warn } from '../terminal/output.js';
import { privilegeLines } from '../terminal/privileges.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';

export function roleCommand(): Command {
  return new Command('role')
    .description('Create, list, show and drop the roles of a project')
    .addCommand(create())
    .addCommand(list())
    .addCommand(show())
    .addCommand(drop());
}

function create(): Command {
  const command = new Command('create')
    .description('Create a role, which has no rights until SQL grants them')
    .argument('<NAME>')
    .option('--comment <TEXT>', 'What it is for')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (name: string) => {
    const { comment } = command.opts<{ comment?: string }>();
    const client = await clientFromOptions(command);
    const role = await client.createRole({ name, ...(comment === undefined ? {} : { comment }) });
    print(command, role, [`Role ${name} created`]);
    if (command.opts<{ json?: boolean }>().json) return;
    warn(`Give it rights with SQL, such as: GRANT SELECT ON customers TO ${role.postgres_name}`);
    warn(
      `Then the operator creates a token: cdp token create --project PROJECT --role ${name} --scopes sql:read --expires 90d`,
    );
  });
}

function list(): Command {
  const command = new Command('list').description('List the roles').option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const roles = await (await clientFromOptions(command)).roles();
    const rows = roles.map(({ name, postgres_name: inSql, comment, created_at: at }) => [
      name,
      inSql,
      at,
      comment ?? '',
    ]);
    const heads = ['role', 'name in SQL', 'created', 'comment'].map((head) => ({ name: head }));
    print(command, roles, roles.length === 0 ? ['No roles yet'] : fitting(heads, rows));
  });
}

function show(): Command {
  const command = new Command('show')
    .description('Show what a role may do now, and its tokens')
    .argument('<NAME>')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (name: string) => {
    const role = await (await clientFromOptions(command)).role(name);
    const { tables, tokens } = role;
    const tokenRows = tokens.map((token) => [token.name, token.scopes.join(','), token.expires_at ?? 'never']);
    print(command, role, [
      `${name}, in SQL ${role.postgres_name}${role.comment === null ? '' : `: ${role.comment}`}`,
      '',
      'By SQL it may use now:',
      ...privilegeLines(tables),
      '',
      ...(tokens.length === 0
        ? ['No token acts as it.']
        : fitting([{ name: 'token' }, { name: 'scopes' }, { name: 'expires' }], tokenRows)),
    ]);
  });
}

function drop(): Command {
  const command = new Command('drop')
    .description('Drop a role with its rights, and revoke its tokens')
    .argument('<NAME>')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (name: string) => {
    const dropped = await (await clientFromOptions(command)).dropRole(name);
    const { revoked_tokens: tokens, dropped_large_objects: objects } = dropped;
    print(command, dropped, [
      `Role ${name} dropped, ${counted(tokens, 'token')} revoked${objects === 0 ? '' : `, ${counted(objects, 'large object')} dropped`}`,
    ]);
  });
}
