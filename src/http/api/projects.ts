/** Projects over HTTP, for an admin token (contract C3, C16). */
import { parseQuota, quotaText } from '../../contract/disk-size.js';
import { EngineError } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/projects.js';
import type { AuditOrigin } from '../../contract/audit.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { sizesOf } from '../../engine/projects/choose-server.js';
import { serverName } from '../../contract/servers.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { endsNow, ProjectInPath, projectInPath } from './call-inputs.js';
import { ADMIN, type Operation, succeeds } from './operation.js';
import type { Call } from '../route.js';

const PROJECT_EXAMPLE = {
  id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e',
  name: 'shop',
  status: 'active',
  quota: 'default',
  own_schemas: true,
  server: 'default',
  created_at: '2026-01-31T09:30:00.000Z',
};

const LIST_PROJECTS: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/projects',
  operationId: 'listProjects',
  summary: 'List all projects',
  audit: { operation: 'project.list', isChange: false },
  success: succeeds(200, wire.ProjectsResponse, '1 project', {
    projects: [{ ...PROJECT_EXAMPLE, size_bytes: 8_388_608 }],
  }),
  errors: [],
  async handle({ engine }) {
    const projects = await engine.projects.list();
    const sizes = await sizesOf(engine.servers, projects);
    const message = counted(projects.length, 'project');
    const body = projects.map((project) => shownProject(project, sizes.get(project.id)));
    return { body: { success: true, message, projects: body } };
  },
};

const CREATE_PROJECT: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/projects',
  operationId: 'createProject',
  summary: 'Create a project',
  audit: { operation: 'project.create', isChange: true, project: 'name' },
  writesEntry: true,
  body: wire.CreateProjectBody,
  example: { name: 'shop' },
  success: succeeds(201, wire.ProjectResponse, 'project created', { project: PROJECT_EXAMPLE }),
  errors: ['invalid_name', 'unique_violation', 'not_found', 'outcome_unknown'],
  async handle(call) {
    const { name, server, labels } = call.request.body as wire.CreateProjectBody;
    if (server !== undefined && labels !== undefined) {
      throw new EngineError('invalid_request', 'Give either "server" or "labels": a server by name needs no labels');
    }
    const project = await call.engine.projects.create(name, auditOriginOf(call.request), { server, labels });
    return { body: projectResponse('project created', project) };
  },
};

/** A change of the project in the path. */
type Change = Pick<Operation, 'method' | 'url' | 'operationId' | 'summary' | 'audit'> &
  Partial<Pick<Operation, 'description' | 'query' | 'body' | 'example' | 'errors'>> & {
    readonly message: string;
    /** What the change has set, in the example of a response. */
    readonly set?: Partial<wire.Project>;
    readonly change: (call: Call, name: string, by: AuditOrigin) => Promise<ProjectRow>;
  };

const changing = ({ message, set, change, ...operation }: Change): Operation => ({
  ...ADMIN,
  writesEntry: true,
  params: ProjectInPath,
  success: succeeds(200, wire.ProjectResponse, message, { project: { ...PROJECT_EXAMPLE, ...set } }),
  errors: ['not_found', 'outcome_unknown'],
  ...operation,
  async handle(call) {
    const project = await change(call, projectInPath(call), auditOriginOf(call.request));
    return { body: projectResponse(message, project) };
  },
});

const RENAME_PROJECT = changing({
  method: 'PUT',
  url: '/api/cdp/admin/projects/:project/name',
  operationId: 'renameProject',
  summary: 'Rename a project',
  description:
    'Its id, tokens and data stay as they are. JWTs name their project: those with the old name are rejected.',
  audit: { operation: 'project.rename', isChange: true },
  body: wire.RenameProjectBody,
  example: { name: 'store' },
  message: 'project renamed',
  set: { name: 'store' },
  errors: ['invalid_name', 'unique_violation', 'not_found', 'outcome_unknown'],
  change: ({ engine, request }, name, by) =>
    engine.projects.rename(name, (request.body as wire.RenameProjectBody).name, by),
});

const ACTIVATE_PROJECT = changing({
  method: 'POST',
  url: '/api/cdp/admin/projects/:project/activate',
  operationId: 'activateProject',
  summary: 'Activate a deactivated project',
  audit: { operation: 'project.activate', isChange: true },
  message: 'project active',
  change: ({ engine }, name, by) => engine.projects.setActive(name, true, by),
});

const DEACTIVATE_PROJECT = changing({
  method: 'POST',
  url: '/api/cdp/admin/projects/:project/deactivate',
  operationId: 'deactivateProject',
  summary: 'Deactivate a project: reject all its requests with 403 cdp_inactive',
  description: 'Waits for running requests to end, about 70 s at most.',
  audit: { operation: 'project.deactivate', isChange: true },
  query: wire.NowQuery,
  message: 'project inactive',
  set: { status: 'inactive' },
  change: ({ engine, request }, name, by) => engine.projects.setActive(name, false, by, endsNow(request)),
});

const REPAIR_PROJECT: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/projects/:project/repair',
  operationId: 'repairProject',
  summary: "Restore the service's part of a project: roles, passwords, privileges that the service grants, schema",
  description:
    'Its tables and rows stay as they are, and so do the rights that the project has revoked and the settings of its roles. `repaired` lists what was restored.',
  audit: { operation: 'project.repair', isChange: true },
  writesEntry: true,
  params: ProjectInPath,
  query: wire.RepairQuery,
  success: succeeds(200, wire.RepairResponse, 'project repaired', {
    project: PROJECT_EXAMPLE,
    repaired: ['its roles lack privileges'],
  }),
  errors: ['not_found', 'request_in_flight'],
  async handle(call) {
    const query = call.request.query as wire.RepairQuery;
    const rights = { reader: query.reader_reads_all === 'true', writer: query.writer_writes_all === 'true' };
    const { project, repaired } = await call.engine.projects.repair(
      projectInPath(call),
      auditOriginOf(call.request),
      rights,
    );
    return { body: { ...projectResponse('project repaired', project), repaired } };
  },
};

const SET_QUOTA = changing({
  method: 'PUT',
  url: '/api/cdp/admin/projects/:project/quota',
  operationId: 'setProjectQuota',
  summary: "Set a project's disk quota",
  description: "A size, `default` for the service's setting, or `none`. It takes effect within a second.",
  audit: { operation: 'project.quota', isChange: true },
  body: wire.ProjectQuotaBody,
  example: { quota: '10GB' },
  message: 'quota set',
  set: { quota: '10GB' },
  async change({ engine, request }, name, by) {
    const { quota } = request.body as wire.ProjectQuotaBody;
    return engine.projects.setQuota(name, quotaBytes(quota), by);
  },
});

const SET_OWN_SCHEMAS = changing({
  method: 'PUT',
  url: '/api/cdp/admin/projects/:project/own-schemas',
  operationId: 'setProjectOwnSchemas',
  summary: 'Allow or forbid a project to create schemas other than `data`',
  description: 'Some tools need them for their own tables. The API itself uses only `data`. Existing schemas stay.',
  audit: { operation: 'project.own_schemas', isChange: true },
  body: wire.ProjectSchemasBody,
  example: { own_schemas: false },
  message: 'own schemas set',
  set: { own_schemas: false },
  change: ({ engine, request }, name, by) =>
    engine.projects.setOwnSchemas(name, (request.body as wire.ProjectSchemasBody).own_schemas, by),
});

const DELETE_PROJECT = changing({
  method: 'DELETE',
  url: '/api/cdp/admin/projects/:project',
  operationId: 'deleteProject',
  summary: 'Delete a project with everything in it',
  description: 'Cannot be undone. `confirm` must repeat the name of the project.',
  audit: { operation: 'project.delete', isChange: true },
  query: wire.DeleteProjectQuery,
  message: 'project deleted',
  set: { status: 'deleting' },
  errors: ['not_found', 'request_in_flight', 'outcome_unknown'],
  async change({ engine, request }, name, by) {
    if ((request.query as wire.DeleteProjectQuery).confirm !== name) {
      throw new EngineError('invalid_request', '"confirm" must be the name of the project');
    }
    return { ...(await engine.projects.delete(name, by)), status: 'deleting' };
  },
});

const projectResponse = (message: string, project: ProjectRow): wire.ProjectResponse => ({
  success: true,
  message,
  project: shownProject(project),
});

/**
 * Parses a quota as the API and the command line accept it, into bytes: null for `default`, 0 for `none`.
 * @throws EngineError invalid_request
 */
function quotaBytes(text: string): number | null {
  if (text === 'default') return null;
  if (text === 'none') return 0;
  try {
    return parseQuota(text);
  } catch (error) {
    throw new EngineError('invalid_request', `"quota" is "default", "none" or a size: ${(error as Error).message}`);
  }
}

const shownQuota = (bytes: number | null): string =>
  bytes === null ? 'default' : bytes === 0 ? 'none' : quotaText(bytes);

/** A project as the API shows it, without the names of its database and roles. @param size bytes on disk, if known */
const shownProject = (project: ProjectRow, size?: number): wire.Project => ({
  id: project.id,
  name: project.name,
  status: project.status,
  quota: shownQuota(project.quotaBytes),
  own_schemas: project.placement.ownSchemas,
  ...(size === undefined ? {} : { size_bytes: size }),
  server: serverName(project.placement),
  created_at: project.createdAt.toISOString(),
});

export const PROJECTS: readonly Operation[] = [
  LIST_PROJECTS,
  CREATE_PROJECT,
  RENAME_PROJECT,
  ACTIVATE_PROJECT,
  DEACTIVATE_PROJECT,
  REPAIR_PROJECT,
  SET_QUOTA,
  SET_OWN_SCHEMAS,
  DELETE_PROJECT,
];
