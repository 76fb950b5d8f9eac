/** `cdp token …`: create, list and revoke the tokens of a project, or admin tokens. */
import { Command, Option } from 'commander';
import { SCOPES, type Scope } from '../contract/names.js';
import type {
  CreateTokenAnswer,
  CreateTokenBody,
  Token,
  TokenAnswer,
  TokensAnswer,
} from '../contract/wire/projects.js';
import { aligned } from './terminal/grid.js';
import { UsageError } from './exit.js';
import { managementOptions, parseDuration, withAdmin } from './management.js';
import { print } from './terminal/output.js';

/** The path of admin tokens; tokens of any kind are revoked there. */
const EVERY_TOKEN = 'local/tokens';

const READ_SCOPES: Scope[] = ['schema:read', 'sql:read'];

interface Whose {
  project?: string;
  admin?: boolean;
}

export function tokenCommand(): Command {
  return new Command('token').description('Manage tokens').addCommand(create()).addCommand(list()).addCommand(revoke());
}

function create(): Command {
  const command = whose(new Command('create').description('Create a token (shown only once)'))
    .option('--scopes <LIST>', `Scopes, separated by commas (default: all): ${SCOPES.join(',')}`)
    .addOption(
      new Option('--read-only', `The same as --scopes ${READ_SCOPES.join(',')}`).conflicts(['scopes', 'admin']),
    )
    .option('--name <NAME>', 'What the token is for')
    .option('--expires <TIME>', 'Lifetime, such as 30d, 12h or 45m (default: never)');
  return managementOptions(command).action(async () => {
    const options = command.opts<Whose & { scopes?: string; readOnly?: boolean; name?: string; expires?: string }>();
    const path = pathIn(options);
    const { name, expires } = options;
    const named = options.scopes === undefined ? undefined : parseScopes(options.scopes);
    const scopes = options.readOnly ? READ_SCOPES : named;
    const wanted: CreateTokenBody = {
      ...(name === undefined ? {} : { name }),
      // Admin tokens have none.
      ...(scopes === undefined || options.admin ? {} : { scopes }),
      ...(expires === undefined ? {} : { expires_at: expiry(expires).toISOString() }),
    };
    await withAdmin(command, async (admin) => {
      const { token, details } = await admin.call<CreateTokenAnswer>('POST', path, wanted);
      print(command, { token, ...details }, [token]);
    });
  });
}

function list(): Command {
  const command = whose(new Command('list').description('List the tokens of a project'));
  return managementOptions(command).action(async () => {
    const path = pathIn(command.opts<Whose>());
    await withAdmin(command, async (admin) => {
      const { tokens } = await admin.call<TokensAnswer>('GET', path);
      const heads = ['ID', 'NAME', 'STATE', 'EXPIRES', 'LAST USED', 'SCOPES'];
      print(command, tokens, aligned([heads, ...tokens.map(cellsOf)]));
    });
  });
}

const cellsOf = (token: Token): string[] => [
  token.id,
  token.name,
  token.revoked_at === null ? 'valid' : 'revoked',
  token.expires_at ?? 'never',
  token.last_used_at ?? 'never',
  token.scopes.join(','),
];

function revoke(): Command {
  const command = new Command('revoke')
    .description('Revoke a token; it stops working within a second')
    .argument('<ID>', 'ID from cdp token list');
  return managementOptions(command).action((id: string) =>
    withAdmin(command, async (admin) => {
      const { details } = await admin.call<TokenAnswer>('DELETE', `${EVERY_TOKEN}/${encodeURIComponent(id)}`);
      print(command, details, [`Token ${details.id} revoked`]);
    }),
  );
}

const whose = (command: Command): Command =>
  command.option('--project <NAME>', 'Tokens of this project').option('--admin', 'Admin tokens, for the admin API');

function pathIn({ project, admin }: Whose): string {
  if ((project === undefined) === !admin) throw new UsageError('Give either --project NAME or --admin');
  return project === undefined ? EVERY_TOKEN : `admin/projects/${encodeURIComponent(project)}/tokens`;
}

function parseScopes(list: string): Scope[] {
  return list.split(',').map((item) => {
    const scope = SCOPES.find((known) => known === item.trim());
    if (scope === undefined) {
      throw new UsageError(`"${item.trim()}" is not a scope; the scopes are ${SCOPES.join(', ')}`);
    }
    return scope;
  });
}

/** A century, which keeps the date one that Postgres and JavaScript share. */
const MAX_MS = 100 * 365 * 86_400_000;

function expiry(text: string): Date {
  const ms = /s$/.test(text) ? null : parseDuration(text);
  if (ms === null || ms === 0 || ms > MAX_MS) throw new UsageError('--expires takes a time such as 30d, 12h or 45m');
  return new Date(Date.now() + ms);
}
