/** `cdp token …`: create, list and revoke the tokens of a project, or admin tokens. */
import { Command } from 'commander';
import { EngineError } from '../contract/errors.js';
import { SCOPES, type Scope } from '../contract/names.js';
import type {
  CreateTokenAnswer,
  CreateTokenBody,
  Token,
  TokenAnswer,
  TokensAnswer,
} from '../contract/wire/projects.js';
import { aligned, managementOptions, print, withAdmin } from './management.js';

/** Where admin tokens are, and where a token of any kind is revoked. */
const EVERY_TOKEN = 'local/tokens';

interface Whose {
  project?: string;
  admin?: boolean;
}

export function tokenCommand(): Command {
  return new Command('token').description('Manage tokens').addCommand(create()).addCommand(list()).addCommand(revoke());
}

function create(): Command {
  const command = whose(new Command('create').description('Create a token; it is shown this once'))
    .option('--scopes <LIST>', `Comma-separated (default: all): ${SCOPES.join(',')}`)
    .option('--name <NAME>', 'What the token is for')
    .option('--expires <TIME>', 'From now, as 30d, 12h or 45m (default: never)');
  return managementOptions(command).action(async () => {
    const options = command.opts<Whose & { scopes?: string; name?: string; expires?: string }>();
    const path = pathIn(options);
    const { name, expires } = options;
    const scopes = options.scopes === undefined ? undefined : parseScopes(options.scopes);
    const wanted: CreateTokenBody = {
      ...(name === undefined ? {} : { name }),
      // An admin token has none.
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
    .argument('<ID>', 'As `cdp token list` shows it');
  return managementOptions(command).action((id: string) =>
    withAdmin(command, async (admin) => {
      const { details } = await admin.call<TokenAnswer>('DELETE', `${EVERY_TOKEN}/${encodeURIComponent(id)}`);
      print(command, details, [`Token ${details.id} revoked`]);
    }),
  );
}

const whose = (command: Command): Command =>
  command.option('--project <NAME>', 'The project').option('--admin', 'An admin token, for the admin API');

/** Where the tokens of a project are, or those of administrators. */
function pathIn({ project, admin }: Whose): string {
  if ((project === undefined) === !admin)
    throw new EngineError('invalid_request', 'Give either --project NAME or --admin');
  return project === undefined ? EVERY_TOKEN : `admin/projects/${encodeURIComponent(project)}/tokens`;
}

/** @throws EngineError where a scope is none of the five */
function parseScopes(list: string): Scope[] {
  return list.split(',').map((item) => {
    const scope = SCOPES.find((known) => known === item.trim());
    if (scope === undefined) {
      throw new EngineError('invalid_request', `"${item.trim()}" is not a scope; the scopes are ${SCOPES.join(', ')}`);
    }
    return scope;
  });
}

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A century is the most that makes sense, and keeps the date one that Postgres and JavaScript share. */
const LONGEST_MS = 100 * 365 * 86_400_000;

function expiry(text: string): Date {
  const match = /^(\d{1,6})([mhd])$/.exec(text);
  const ms = Number(match?.[1]) * (UNITS[match?.[2] ?? ''] ?? NaN);
  if (!(ms > 0 && ms <= LONGEST_MS))
    throw new EngineError('invalid_request', '--expires takes a time such as 30d, 12h or 45m');
  return new Date(Date.now() + ms);
}
