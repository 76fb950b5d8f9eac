/** The admin API: the requests of the operator's screens and forms. */
import type { AuditResponse } from '../../../src/contract/wire/audit.js';
import type {
  MovePlanResponse,
  MovesResponse,
  PlannedMove,
  RebalanceResponse,
} from '../../../src/contract/wire/moves.js';
import type { Project, ProjectsResponse } from '../../../src/contract/wire/projects.js';
import type { NewTokenLimits } from '../../../src/contract/wire/token-limits.js';
import type { TokensResponse } from '../../../src/contract/wire/tokens.js';
import type { RunningRequestsResponse } from '../../../src/contract/wire/requests.js';
import type { Server, ServersResponse } from '../../../src/contract/wire/servers.js';
import type { UsageOfDay, UsageResponse } from '../../../src/contract/wire/usage.js';
import type { ServerStatus } from '../../../src/contract/servers.js';
import type { Verification } from '../../../src/contract/moves.js';
import type { Scope } from '../../../src/contract/names.js';
import { type ApiRequest, send } from '../parts/api-request.js';

const ADMIN = '/api/cdp/admin';

const pathOf = (project: string, ...parts: string[]): string =>
  [`${ADMIN}/projects`, ...[project, ...parts].map(encodeURIComponent)].join('/');

export const listProjects = async (): Promise<Project[]> =>
  (await send<ProjectsResponse>({ method: 'GET', path: `${ADMIN}/projects` })).projects;

export const listServers = async (): Promise<Server[]> =>
  (await send<ServersResponse>({ method: 'GET', path: `${ADMIN}/servers` })).servers;

export const listTokens = async (project: string): Promise<TokensResponse['tokens']> =>
  (await send<TokensResponse>({ method: 'GET', path: pathOf(project, 'tokens') })).tokens;

export const listRequests = async (): Promise<RunningRequestsResponse['requests']> =>
  (await send<RunningRequestsResponse>({ method: 'GET', path: `${ADMIN}/requests` })).requests;

export const readAudit = (filter: URLSearchParams): Promise<AuditResponse> =>
  send<AuditResponse>({ method: 'GET', path: `${ADMIN}/audit?${filter}` });

/** All days of a month, such as `2026-11`. */
export async function listUsage(month: string): Promise<UsageOfDay[]> {
  const days: UsageOfDay[] = [];
  for (let next: string | null = ''; next !== null;) {
    const query = new URLSearchParams({ month, ...(next === '' ? {} : { after: next }) });
    const page: UsageResponse = await send({ method: 'GET', path: `${ADMIN}/usage?${query}` });
    days.push(...page.usage);
    ({ next } = page);
  }
  return days;
}

interface OpenApi {
  readonly paths: Record<
    string,
    { readonly get?: { readonly parameters: readonly { name: string; schema: { enum?: readonly string[] } }[] } }
  >;
}

/** The words that the entries can have, as the service describes itself. */
export async function auditWords(): Promise<readonly string[]> {
  const { paths } = await send<OpenApi>({ method: 'GET', path: '/openapi.json' });
  const operation = paths[`${ADMIN}/audit`]?.get?.parameters.find(({ name }) => name === 'operation');
  return operation?.schema.enum ?? [];
}

export const createProject = (name: string): ApiRequest => ({
  method: 'POST',
  path: `${ADMIN}/projects`,
  body: { name },
});

export const renameProject = (project: string, name: string): ApiRequest => ({
  method: 'PUT',
  path: pathOf(project, 'name'),
  body: { name },
});

export const setQuota = (project: string, quota: string): ApiRequest => ({
  method: 'PUT',
  path: pathOf(project, 'quota'),
  body: { quota },
});

export const activateProject = (project: string): ApiRequest => ({
  method: 'POST',
  path: pathOf(project, 'activate'),
});

/** @param now aborts requests that are still running */
export const deactivateProject = (project: string, now: boolean): ApiRequest => ({
  method: 'POST',
  path: `${pathOf(project, 'deactivate')}${now ? '?now=true' : ''}`,
});

export const deleteProject = (project: string): ApiRequest => ({
  method: 'DELETE',
  path: `${pathOf(project)}?confirm=${encodeURIComponent(project)}`,
});

export const createToken = (
  project: string,
  token: {
    name: string;
    scopes: readonly Scope[];
    role: string;
    limits: NewTokenLimits | null;
    expiresAt: string | null;
  },
): ApiRequest => ({
  method: 'POST',
  path: pathOf(project, 'tokens'),
  body: {
    ...(token.name === '' ? {} : { name: token.name }),
    scopes: token.scopes,
    ...(token.role === '' ? {} : { role: token.role }),
    ...(token.limits === null ? {} : { limits: token.limits }),
    ...(token.expiresAt === null ? {} : { expires_at: token.expiresAt }),
  },
});

export const revokeToken = (project: string, id: string, now: boolean): ApiRequest => ({
  method: 'DELETE',
  path: `${pathOf(project, 'tokens', id)}${now ? '?now=true' : ''}`,
});

export const cancelRequest = (project: string, id: string): ApiRequest => ({
  method: 'DELETE',
  path: pathOf(project, 'requests', id),
});

/** The last 100 moves, the newest first. */
export const listMoves = async (): Promise<MovesResponse['moves']> =>
  (await send<MovesResponse>({ method: 'GET', path: `${ADMIN}/moves` })).moves;

/** The moves that a rebalance would make now. */
export const planRebalance = async (): Promise<readonly PlannedMove[]> =>
  (await send<RebalanceResponse>({ method: 'GET', path: `${ADMIN}/rebalance` })).moves;

export const planMove = (project: string, to: string): Promise<MovePlanResponse> =>
  send<MovePlanResponse>({ method: 'GET', path: `${pathOf(project, 'move')}?${new URLSearchParams({ to })}` });

export const moveProject = (project: string, to: string, verify: Verification = 'counts'): ApiRequest => ({
  method: 'POST',
  path: pathOf(project, 'move'),
  body: { to, verify },
});

export const cancelMove = (id: string): ApiRequest => ({ method: 'DELETE', path: `${ADMIN}/moves/${id}` });

export const setServerStatus = (server: string, status: ServerStatus): ApiRequest => ({
  method: 'PUT',
  path: `${ADMIN}/servers/${encodeURIComponent(server)}`,
  body: { status },
});

export const checkServer = (server: string): ApiRequest => ({
  method: 'POST',
  path: `${ADMIN}/servers/${encodeURIComponent(server)}/check`,
});
