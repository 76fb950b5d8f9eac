/** The admin API: what the screens of an operator ask for, and the requests that their forms send. */
import type { AuditAnswer } from '../../../src/contract/wire/audit.js';
import type { Project, ProjectsAnswer, TokensAnswer } from '../../../src/contract/wire/projects.js';
import type { RunningRequestsAnswer } from '../../../src/contract/wire/requests.js';
import type { Server, ServersAnswer } from '../../../src/contract/wire/servers.js';
import type { Scope } from '../../../src/contract/names.js';
import { type ApiRequest, send } from '../parts/api-request.js';

const ADMIN = '/api/cdp/admin';

const pathOf = (project: string, ...parts: string[]): string =>
  [`${ADMIN}/projects`, ...[project, ...parts].map(encodeURIComponent)].join('/');

export const listProjects = async (): Promise<Project[]> =>
  (await send<ProjectsAnswer>({ method: 'GET', path: `${ADMIN}/projects` })).projects;

export const listServers = async (): Promise<Server[]> =>
  (await send<ServersAnswer>({ method: 'GET', path: `${ADMIN}/servers` })).servers;

export const listTokens = async (project: string): Promise<TokensAnswer['tokens']> =>
  (await send<TokensAnswer>({ method: 'GET', path: pathOf(project, 'tokens') })).tokens;

export const listRequests = async (): Promise<RunningRequestsAnswer['requests']> =>
  (await send<RunningRequestsAnswer>({ method: 'GET', path: `${ADMIN}/requests` })).requests;

export const readAudit = (filter: URLSearchParams): Promise<AuditAnswer> =>
  send<AuditAnswer>({ method: 'GET', path: `${ADMIN}/audit?${filter}` });

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

/** @param now ends what still runs */
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
  token: { name: string; scopes: readonly Scope[]; expiresAt: string | null },
): ApiRequest => ({
  method: 'POST',
  path: pathOf(project, 'tokens'),
  body: {
    ...(token.name === '' ? {} : { name: token.name }),
    scopes: token.scopes,
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
