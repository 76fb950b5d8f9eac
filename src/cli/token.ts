/** `cdp token …`: create, list, show and revoke the tokens of a project, or admin tokens. */
import { Command, Option } from 'commander';
import { DAY_MS } from '../contract/calendar.js';
import { DEFAULT_SCOPES, READ_SCOPES, type Scope, SCOPE_IN_WORDS, SCOPES } from '../contract/names.js';
import { isUuid } from '../contract/patterns.js';
import type { ProjectsResponse } from '../contract/wire/projects.js';
import type { NewTokenLimits, TokenLimits } from '../contract/wire/token-limits.js';
import type { TablePrivileges, TokenTablesResponse } from '../contract/wire/roles.js';
import type {
  CreateTokenResponse,
  CreateTokenBody,
  Token,
  TokenResponse,
  TokensResponse,
} from '../contract/wire/tokens.js';
import { tableLines } from './terminal/grid.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import { UsageError } from './exit.js';
import { privilegeLines } from './terminal/privileges.js';
import { operatorOptions, nowQuery, operatorAction, parseDuration, withAdminSocket } from './operator-commands.js';
import { list as listIn, whole } from './remote/remote-options.js';
import { print, warn } from './terminal/output.js';

/** The path for admin tokens; tokens of all kinds are revoked there. */
const EVERY_TOKEN = 'local/tokens';

interface Whose {
  project?: string;
  admin?: boolean;
}

export function tokenCommand(): Command {
  return new Command('token')
    .description('Manage tokens')
    .addCommand(create())
    .addCommand(list())
    .addCommand(show())
    .addCommand(revoke());
}

function create(): Command {
  const command = new Command('create')
    .description('Create a token (shown only once)')
    // `pathIn` has a better message.
    .allowExcessArguments()
    .option('--project <NAME>', 'Project that the token is for')
    .option('--admin', 'Create an admin token, for the admin API')
    .option(
      '--scopes <LIST>',
      `Scopes, separated by commas (default: ${DEFAULT_SCOPES.join(',')}): ${SCOPES.join(',')}`,
    )
    .addOption(
      new Option('--read-only', `The same as --scopes ${READ_SCOPES.join(',')}`).conflicts(['scopes', 'admin']),
    )
    .addOption(
      new Option('--role <ROLE>', 'Role of the project, as which the token does everything').conflicts('admin'),
    )
    .option('--tables <LIST>', 'With data:append alone: only into these tables', listIn)
    .option(
      '--origins <LIST>',
      'With data:append alone: only by pages of these origins, such as https://shop.example.com',
      listIn,
    )
    .option('--requests-per-second <N>', 'With data:append alone: at most so many requests, on each instance', whole)
    .option('--requests-per-day <N>', 'With data:append alone: at most so many requests, in UTC', whole)
    .option('--rows-per-second <N>', 'With data:append alone: at most so many records, on each instance', whole)
    .option('--rows-per-day <N>', 'With data:append alone: at most so many records, in UTC', whole)
    .addOption(
      new Option(
        '--users <CHANGE>',
        'With data:append alone: whether its events change users and accounts (default: off with --origins, else on)',
      ).choices(['on', 'off']),
    )
    .option('--name <NAME>', 'Name that shows the purpose of the token')
    .option('--expires <TIME>', 'Lifetime, such as 30d, 12h or 45m (default: never)');
  return operatorOptions(command).action(async () => {
    const options = command.opts<
      Whose & LimitOptions & { scopes?: string; readOnly?: boolean; role?: string; name?: string; expires?: string }
    >();
    const path = pathIn(command);
    const { name, role, expires } = options;
    const chosenScopes = options.scopes === undefined ? undefined : parseScopes(options.scopes);
    const scopes = options.readOnly ? [...READ_SCOPES] : chosenScopes;
    const limits = limitsIn(options);
    const body: CreateTokenBody = {
      ...(name === undefined ? {} : { name }),
      // Admin tokens have no scopes.
      ...(scopes === undefined || options.admin ? {} : { scopes }),
      ...(role === undefined ? {} : { role }),
      ...(limits === null ? {} : { limits }),
      ...(expires === undefined ? {} : { expires_at: expiry(expires).toISOString() }),
    };
    await withAdminSocket(command, async (admin) => {
      const { token, details } = await admin.call<CreateTokenResponse>('POST', path, body);
      print(command, { token, ...details }, [token]);
      if (command.opts<{ json?: boolean }>().json) return;
      warn(inWords(details, options.admin));
      const isChosen = scopes !== undefined || expires !== undefined || options.admin;
      if (!isChosen) warn('For a program that only reads, create one with --read-only --expires 90d');
    });
  });
}

function list(): Command {
  const command = new Command('list')
    .description('List the tokens of a project, or of all projects')
    .allowExcessArguments()
    .option('--project <NAME>', 'Tokens of this project')
    .option('--admin', 'Admin tokens, for the admin API')
    .addOption(new Option('--all', 'Tokens of all projects, and admin tokens').conflicts(['project', 'admin']));
  return operatorOptions(command).action(async () => {
    const options = command.opts<Whose & { all?: boolean }>();
    if (options.all && command.args.length === 0) return withAdminSocket(command, (admin) => listAll(command, admin));
    const path = pathIn(command, '--project NAME, --admin or --all');
    await withAdminSocket(command, async (admin) => {
      const tokens = await tokensIn(admin, path);
      print(command, tokens, tableLines(HEADS, tokens.map(cellsOf)));
    });
  });
}

const HEADS = ['ID', 'NAME', 'STATE', 'EXPIRES', 'LAST USED', 'ROLE', 'SCOPES', 'LIMITS'];

/** `project`: null for an admin token. */
type TokenOfProject = Token & { project: string | null };

/** Admin tokens, which belong to no project, come first. */
async function allTokens(admin: AdminSocketClient): Promise<TokenOfProject[]> {
  const tokens = (await tokensIn(admin, EVERY_TOKEN)).map((token) => ({ project: null as string | null, ...token }));
  const { projects } = await admin.call<ProjectsResponse>('GET', 'admin/projects');
  for (const { name } of projects) {
    tokens.push(...(await tokensIn(admin, tokensOf(name))).map((token) => ({ project: name, ...token })));
  }
  return tokens;
}

async function listAll(command: Command, admin: AdminSocketClient): Promise<void> {
  const tokens = await allTokens(admin);
  const rows = tokens.map((token) => [token.project ?? '-', ...cellsOf(token)]);
  print(command, tokens, tableLines(['PROJECT', ...HEADS], rows));
}

const tokensIn = async (admin: AdminSocketClient, path: string): Promise<Token[]> =>
  (await admin.call<TokensResponse>('GET', path)).tokens;

const tokensOf = (project: string): string => `admin/projects/${encodeURIComponent(project)}/tokens`;

const cellsOf = (token: Token): string[] => [
  token.id,
  token.name,
  token.revoked_at === null ? 'valid' : 'revoked',
  token.expires_at ?? 'never',
  token.last_used_at ?? 'never',
  token.role ?? '-',
  token.scopes.join(','),
  limitsInWords(token.limits) || '-',
];

interface LimitOptions {
  tables?: string[];
  origins?: string[];
  requestsPerSecond?: number;
  requestsPerDay?: number;
  rowsPerSecond?: number;
  rowsPerDay?: number;
  users?: 'on' | 'off';
}

function limitsIn(options: LimitOptions): NewTokenLimits | null {
  const limits = {
    tables: options.tables,
    origins: options.origins,
    requests_per_second: options.requestsPerSecond,
    requests_per_day: options.requestsPerDay,
    rows_per_second: options.rowsPerSecond,
    rows_per_day: options.rowsPerDay,
    users: options.users,
  };
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  return given.length === 0 ? null : Object.fromEntries(given);
}

/** What narrows it: `only into clicks, at most 100 requests a second`; '' if nothing does. */
function limitsInWords(limits: TokenLimits | null): string {
  if (limits === null) return '';
  const { tables, origins, users, ...rates } = limits;
  const parts = [
    ...(tables === null ? [] : [`only into ${tables.join(', ')}`]),
    ...(origins === null ? [] : [`from a browser only by pages of ${origins.join(', ')}`]),
    ...Object.entries(rates).flatMap(([name, most]) =>
      most === null ? [] : [`at most ${most} ${name.replace('_per_', ' a ')}`],
    ),
    ...(users === 'off' ? ['without changing users and accounts'] : []),
  ];
  return parts.join(', ');
}

/** What a token may do, and for how long. */
function inWords({ scopes, role, limits, expires_at: expiry }: Token, isAdmin = false): string {
  const what = isAdmin ? 'manage projects and tokens' : scopes.map((scope) => SCOPE_IN_WORDS[scope]).join('; ');
  const rights = role === null ? '' : `, as far as the role ${role} has the rights`;
  const narrowed = limitsInWords(limits);
  return `It may ${what}${rights}${narrowed && `, ${narrowed}`}. It ${expiry === null ? 'never expires' : `expires at ${expiry}`}.`;
}

function show(): Command {
  const command = new Command('show')
    .description('Show what a token may do, who created it, and when it was last used')
    .argument('<TOKEN>', 'Its ID, as in cdp token list; or its name, if no other valid token has it');
  return operatorAction(command, async (admin, idOrName: string) => {
    const tokens = await allTokens(admin);
    const id = isUuid(idOrName) ? idOrName.toLowerCase() : idOf(tokens, idOrName);
    const token = tokens.find((one) => one.id === id);
    if (token === undefined) throw new UsageError(`No token has the ID ${id}`);
    const {
      project,
      name,
      created_at: createdAt,
      created_by: author,
      last_used_at: usedAt,
      revoked_at: revokedAt,
    } = token;
    const tables = project === null || revokedAt !== null ? null : await tablesOf(admin, project, id);
    print(command, { ...token, tables: tables ?? [] }, [
      `${name}, ${project === null ? 'an admin token' : `of the project ${project}`}`,
      inWords(token, project === null),
      `Created at ${createdAt}${author === null ? '' : ` by ${author}`}; last used: ${usedAt ?? 'never'}`,
      ...(revokedAt === null ? [] : [`Revoked at ${revokedAt}`]),
      ...(tables === null ? [] : ['', 'By SQL it may use now:', ...privilegeLines(tables)]),
    ]);
  });
}

const tablesOf = async (admin: AdminSocketClient, project: string, id: string): Promise<TablePrivileges[]> =>
  (await admin.call<TokenTablesResponse>('GET', `local/projects/${encodeURIComponent(project)}/tokens/${id}/tables`))
    .tables;

function revoke(): Command {
  const command = new Command('revoke')
    .description('Revoke a token; it stops working within a second')
    .argument('<TOKEN>', 'Its ID, as in cdp token list; or its name, if no other valid token has it')
    .option('--now', 'Also end requests that are still running');
  return operatorAction(command, async (admin, idOrName: string) => {
    const id = isUuid(idOrName) ? idOrName : idOf(await allTokens(admin), idOrName);
    const path = `${EVERY_TOKEN}/${encodeURIComponent(id)}${nowQuery(command)}`;
    const { details } = await admin.call<TokenResponse>('DELETE', path);
    print(command, details, [`Token ${details.id} revoked`]);
  });
}

/** @throws UsageError unless exactly one valid token has the name */
function idOf(all: readonly TokenOfProject[], name: string): string {
  const tokens = all.filter((token) => token.name === name && token.revoked_at === null);
  const [only, ...others] = tokens;
  if (only === undefined) throw new UsageError(`No valid token has the ID or the name "${name}"`);
  if (others.length === 0) return only.id;
  throw new UsageError(
    `${tokens.length} valid tokens have the name "${name}": ${tokens.map(({ id, project }) => `${id} (${project ?? 'admin'})`).join(', ')}`,
    'Revoke it by its ID',
  );
}

/** @throws UsageError also for `cdp token create shop` */
function pathIn(command: Command, ways = 'either --project NAME or --admin'): string {
  const [word] = command.args;
  if (word !== undefined) throw new UsageError(`Name the project with --project: --project ${word}`);
  const { project, admin } = command.opts<Whose>();
  if ((project === undefined) === !admin) throw new UsageError(`Give ${ways}`);
  return project === undefined ? EVERY_TOKEN : tokensOf(project);
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

/** A century, so that the date is valid in Postgres and JavaScript. */
const MAX_MS = 100 * 365 * DAY_MS;

function expiry(text: string): Date {
  const ms = /s$/.test(text) ? null : parseDuration(text);
  if (ms === null || ms === 0 || ms > MAX_MS) throw new UsageError('--expires takes a time such as 30d, 12h or 45m');
  return new Date(Date.now() + ms);
}
