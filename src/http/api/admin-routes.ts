/** What an admin token is for: projects and tokens over HTTP (contract section 2), and the audit log. */
import { EngineError } from '../../contract/errors.js';
import { Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/projects.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { originOf } from '../watch/audit.js';
import { READ_AUDIT } from './audit-route.js';
import { quotaBytes, shownProject, shownToken } from './admin-views.js';
import type { Context, Route } from './route.js';
import { timeOf } from '../time.js';

const ProjectInPath = Type.Object({ project: Type.String() });
const TokenInPath = Type.Object({ project: Type.String(), token_id: Type.String() });

const PROJECT_EXAMPLE = {
  id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e',
  name: 'shop',
  status: 'active',
  quota: 'default',
  created_at: '2026-01-31T09:30:00.000Z',
};

const TOKEN_EXAMPLE = {
  id: '5f3f2b8e-52a4-4c83-9a1a-6f0a6c2f5d10',
  name: 'importer',
  scopes: ['data:write'],
  created_at: '2026-01-31T09:30:00.000Z',
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
};

export const ADMIN_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    url: '/api/cdp/admin/projects',
    access: 'admin',
    operationId: 'listProjects',
    summary: 'All projects',
    tag: 'admin',
    audit: 'project.list',
    work: null,
    success: {
      status: 200,
      answer: wire.ProjectsAnswer,
      example: { success: true, message: '1 project', projects: [{ ...PROJECT_EXAMPLE, size_bytes: 8_388_608 }] },
    },
    errors: [],
    async handle({ engine }) {
      const projects = await engine.projects.list();
      const sizes = await engine.sizesOf(projects);
      const message = `${projects.length} ${projects.length === 1 ? 'project' : 'projects'}`;
      const shown = projects.map((project) => shownProject(project, sizes.get(project.id)));
      return { body: { success: true, message, projects: shown } };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/admin/projects',
    access: 'admin',
    operationId: 'createProject',
    summary: 'Create a project with a database of its own',
    tag: 'admin',
    audit: 'project.create',
    writesEntry: true,
    work: null,
    body: wire.CreateProjectBody,
    example: { name: 'shop' },
    success: {
      status: 201,
      answer: wire.ProjectAnswer,
      example: { success: true, message: 'project created', project: PROJECT_EXAMPLE },
    },
    errors: ['invalid_name', 'unique_violation', 'not_found', 'outcome_unknown'],
    async handle(context) {
      const { name } = context.request.body as wire.CreateProjectBody;
      const project = await context.engine.projects.create(name, originOf(context.request));
      return { body: projectAnswer('project created', project) };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/admin/projects/:project/activate',
    access: 'admin',
    operationId: 'activateProject',
    summary: 'Let a project be used again',
    tag: 'admin',
    audit: 'project.activate',
    writesEntry: true,
    work: null,
    params: ProjectInPath,
    success: {
      status: 200,
      answer: wire.ProjectAnswer,
      example: { success: true, message: 'project active', project: PROJECT_EXAMPLE },
    },
    errors: ['not_found', 'outcome_unknown'],
    async handle(context) {
      const project = await context.engine.projects.setActive(projectInPath(context), true, originOf(context.request));
      return { body: projectAnswer('project active', project) };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/admin/projects/:project/deactivate',
    access: 'admin',
    operationId: 'deactivateProject',
    summary: 'Answer every call of a project with 403 cdp_inactive',
    tag: 'admin',
    audit: 'project.deactivate',
    writesEntry: true,
    work: null,
    params: ProjectInPath,
    success: {
      status: 200,
      answer: wire.ProjectAnswer,
      example: { success: true, message: 'project inactive', project: { ...PROJECT_EXAMPLE, status: 'inactive' } },
    },
    errors: ['not_found', 'outcome_unknown'],
    async handle(context) {
      const project = await context.engine.projects.setActive(projectInPath(context), false, originOf(context.request));
      return { body: projectAnswer('project inactive', project) };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/admin/projects/:project/repair',
    access: 'admin',
    operationId: 'repairProject',
    summary: 'Put right what a project did to its own roles, rights and schema',
    description: 'Its tables and rows stay as they are. `repaired` says what was wrong; passwords are always set anew.',
    tag: 'admin',
    audit: 'project.repair',
    writesEntry: true,
    work: null,
    params: ProjectInPath,
    success: {
      status: 200,
      answer: wire.RepairAnswer,
      example: {
        success: true,
        message: 'project repaired',
        project: PROJECT_EXAMPLE,
        repaired: ['its roles have settings of their own'],
      },
    },
    errors: ['not_found', 'request_in_flight'],
    async handle(context) {
      const { project, repaired } = await context.engine.projects.repair(
        projectInPath(context),
        originOf(context.request),
      );
      return { body: { ...projectAnswer('project repaired', project), repaired } };
    },
  },
  {
    method: 'PUT',
    url: '/api/cdp/admin/projects/:project/quota',
    access: 'admin',
    operationId: 'setProjectQuota',
    summary: 'Give a project a disk quota of its own',
    description: 'A size, `default` for what the service is set to, or `none`. It holds within a second.',
    tag: 'admin',
    audit: 'project.quota',
    writesEntry: true,
    work: null,
    params: ProjectInPath,
    body: wire.ProjectQuotaBody,
    example: { quota: '10GB' },
    success: {
      status: 200,
      answer: wire.ProjectAnswer,
      example: { success: true, message: 'quota set', project: { ...PROJECT_EXAMPLE, quota: '10GB' } },
    },
    errors: ['not_found', 'outcome_unknown'],
    async handle(context) {
      const { quota } = context.request.body as wire.ProjectQuotaBody;
      const project = await context.engine.projects.setQuota(
        projectInPath(context),
        quotaBytes(quota),
        originOf(context.request),
      );
      return { body: projectAnswer('quota set', project) };
    },
  },
  {
    method: 'DELETE',
    url: '/api/cdp/admin/projects/:project',
    access: 'admin',
    operationId: 'deleteProject',
    summary: 'Delete a project with everything in it',
    description: 'Cannot be undone. `confirm` must repeat the name of the project.',
    tag: 'admin',
    audit: 'project.delete',
    writesEntry: true,
    work: null,
    params: ProjectInPath,
    query: wire.DeleteProjectQuery,
    success: {
      status: 200,
      answer: wire.ProjectAnswer,
      example: { success: true, message: 'project deleted', project: { ...PROJECT_EXAMPLE, status: 'deleting' } },
    },
    errors: ['not_found', 'request_in_flight', 'outcome_unknown'],
    async handle(context) {
      const name = projectInPath(context);
      if ((context.request.query as wire.DeleteProjectQuery).confirm !== name) {
        throw new EngineError('invalid_request', '"confirm" must be the name of the project');
      }
      const project = await context.engine.deleteProject(name, originOf(context.request));
      return { body: projectAnswer('project deleted', { ...project, status: 'deleting' }) };
    },
  },
  {
    method: 'GET',
    url: '/api/cdp/admin/projects/:project/tokens',
    access: 'admin',
    operationId: 'listTokens',
    summary: 'The tokens of a project',
    tag: 'admin',
    audit: 'token.list',
    work: null,
    params: ProjectInPath,
    success: {
      status: 200,
      answer: wire.TokensAnswer,
      example: { success: true, message: '1 token', tokens: [TOKEN_EXAMPLE] },
    },
    errors: ['not_found'],
    async handle(context) {
      const project = await context.engine.projects.get(projectInPath(context));
      const tokens = await context.engine.tokens.list(project.id);
      const message = `${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'}`;
      return { body: { success: true, message, tokens: tokens.map(shownToken) } };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/admin/projects/:project/tokens',
    access: 'admin',
    operationId: 'createToken',
    summary: 'Create a token; it is shown this once',
    tag: 'admin',
    audit: 'token.create',
    writesEntry: true,
    work: null,
    params: ProjectInPath,
    body: wire.CreateTokenBody,
    example: { name: 'importer', scopes: ['data:write'] },
    success: {
      status: 201,
      answer: wire.CreateTokenAnswer,
      example: { success: true, message: 'token created', token: `cdp_${'0'.repeat(49)}`, details: TOKEN_EXAMPLE },
    },
    errors: ['not_found', 'outcome_unknown'],
    async handle(context) {
      const { name, scopes, expires_at: expires } = context.request.body as wire.CreateTokenBody;
      const project = await context.engine.projects.get(projectInPath(context));
      const options = {
        ...(name === undefined ? {} : { name }),
        ...(scopes === undefined ? {} : { scopes }),
        expiresAt: expires == null ? null : timeOf('expires_at', expires),
      };
      const { token, details } = await context.engine.tokens.create(project.id, options, originOf(context.request));
      return { body: { success: true, message: 'token created', token, details: shownToken(details) } };
    },
  },
  {
    method: 'DELETE',
    url: '/api/cdp/admin/projects/:project/tokens/:token_id',
    access: 'admin',
    operationId: 'revokeToken',
    summary: 'Revoke a token, on every instance within a second',
    tag: 'admin',
    audit: 'token.revoke',
    writesEntry: true,
    work: null,
    params: TokenInPath,
    success: {
      status: 200,
      answer: wire.TokenAnswer,
      example: { success: true, message: 'token revoked', details: TOKEN_EXAMPLE },
    },
    errors: ['not_found', 'outcome_unknown'],
    async handle(context) {
      const project = await context.engine.projects.get(projectInPath(context));
      const { token_id: id } = context.request.params as { token_id: string };
      const details = await context.engine.tokens.revoke(id, project.id, originOf(context.request));
      return { body: { success: true, message: 'token revoked', details: shownToken(details) } };
    },
  },
  READ_AUDIT,
];

const projectInPath = ({ request }: Context): string => (request.params as { project: string }).project;

const projectAnswer = (message: string, project: ProjectRow): wire.ProjectAnswer => ({
  success: true,
  message,
  project: shownProject(project),
});
