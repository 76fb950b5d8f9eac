/** `cdp token …`: create, list and revoke the tokens of a project, or admin tokens. */
import { Command } from 'commander';
import { EngineError } from '../contract/errors.js';
import { SCOPES } from '../contract/names.js';
import type { Engine } from '../engine/engine.js';
import { parseScopes } from '../engine/access/tokens.js';
import { shownToken } from '../http/api/admin-views.js';
import { aligned, commandLine, managementOptions, print, withEngine } from './management.js';

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
    const owner = ownerIn(options);
    const scopes = options.scopes === undefined ? undefined : parseScopes(options.scopes);
    const expiresAt = options.expires === undefined ? null : expiry(options.expires);
    const wanted = {
      ...(options.name === undefined ? {} : { name: options.name }),
      ...(scopes === undefined ? {} : { scopes }),
      expiresAt,
    };
    const { token, details } = await withEngine(command, async (engine) =>
      engine.tokens.create(await idOf(engine, owner), wanted, commandLine()),
    );
    print(command, { token, ...shownToken(details) }, [token]);
  });
}

function list(): Command {
  const command = whose(new Command('list').description('List the tokens of a project'));
  return managementOptions(command).action(async () => {
    const owner = ownerIn(command.opts<Whose>());
    const rows = await withEngine(command, async (engine) => engine.tokens.list(await idOf(engine, owner)));
    const tokens = rows.map(shownToken);
    const lines = tokens.map((token) => [
      token.id,
      token.name,
      token.revoked_at === null ? 'valid' : 'revoked',
      token.expires_at ?? 'never',
      token.last_used_at ?? 'never',
      token.scopes.join(','),
    ]);
    print(command, tokens, aligned([['ID', 'NAME', 'STATE', 'EXPIRES', 'LAST USED', 'SCOPES'], ...lines]));
  });
}

function revoke(): Command {
  const command = new Command('revoke')
    .description('Revoke a token; it stops working within a second')
    .argument('<ID>', 'As `cdp token list` shows it');
  return managementOptions(command).action(async (id: string) => {
    const token = await withEngine(command, (engine) => engine.tokens.revoke(id, undefined, commandLine()));
    print(command, shownToken(token), [`Token ${token.id} revoked`]);
  });
}

const whose = (command: Command): Command =>
  command.option('--project <NAME>', 'The project').option('--admin', 'An admin token, for the admin API');

/** The name of the project; null for admin tokens. */
function ownerIn({ project, admin }: Whose): string | null {
  if ((project === undefined) === !admin)
    throw new EngineError('invalid_request', 'Give either --project NAME or --admin');
  return project ?? null;
}

const idOf = async (engine: Engine, project: string | null): Promise<string | null> =>
  project === null ? null : (await engine.projects.get(project)).id;

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
