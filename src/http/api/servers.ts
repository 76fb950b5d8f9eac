/** Postgres servers over HTTP, for an admin token. */
import { SERVER_NAME_PATTERN } from '../../contract/names.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import { EngineError } from '../../contract/errors.js';
import { defaultOccupancy } from '../../contract/servers.js';
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/servers.js';
import { serverNamed, serverSizes } from '../../engine/projects/choose-server.js';
import type { ServerChange, ServerRow } from '../../tenancy/control/server-rows.js';
import type { CheckedServer } from '../../engine/servers/change-servers.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { ADMIN, type Operation, succeeds } from './operation.js';
import type { Call } from '../route.js';

/** Loaded on demand: few processes need these modules. */
const changes = () => import('../../engine/servers/change-servers.js');

const ServerInPath = Type.Object({
  server: Type.String({ [DOCUMENTED]: { pattern: SERVER_NAME_PATTERN } }),
});

const serverInPath = ({ request }: Call): string => (request.params as { server: string }).server;

const EXAMPLE: wire.Server = {
  name: 'eu-1',
  url_reference: 'env:EU_1_URL',
  engine: 'postgres',
  tenancy: 'shared',
  labels: { region: 'eu' },
  weight: 1,
  max_projects: 200,
  max_bytes: null,
  max_connections: null,
  replicas: [],
  consistency: 'strong',
  status: 'active',
  projects: 0,
  facts: {
    checked_at: '2026-01-31T09:30:00.000Z',
    version: '15.14 (Debian 15.14-0+deb12u1)',
    latency_ms: 0.41,
    clock_ahead_ms: 1.2,
    connections: 197,
    connections_used: 3,
    bytes: 0,
  },
  created_at: '2026-01-31T09:30:00.000Z',
};

const FINDING_EXAMPLE = {
  subject: 'rights',
  health: 'ok',
  found: "the service's role may create databases and roles",
  advice: null,
};

const LIST_SERVERS: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/servers',
  operationId: 'listServers',
  summary: 'List the Postgres servers that projects live on',
  audit: { operation: 'server.list', isChange: false, isPolled: true },
  success: succeeds(200, wire.ServersResponse, '1 server', {
    servers: [{ ...EXAMPLE, size_bytes: 0 }],
  }),
  errors: [],
  async handle({ engine }) {
    const servers = await engine.control.servers.list();
    const message = counted(servers.length, 'server');
    const sizes = await serverSizes(engine);
    const body = servers.map((server) => {
      const size = sizes(server.name);
      return { ...shownServer(server), ...(size === null ? {} : { size_bytes: size }) };
    });
    return { body: { success: true, message, servers: body } };
  },
};

const ADD_SERVER: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/servers',
  operationId: 'addServer',
  summary: 'Add a Postgres server for projects',
  description: 'The server is checked first. `findings` lists what else the check found.',
  audit: { operation: 'server.add', isChange: true, object: 'name' },
  writesEntry: true,
  body: wire.AddServerBody,
  example: { name: 'eu-1', url_reference: 'env:EU_1_URL', labels: { region: 'eu' }, max_projects: 200 },
  success: succeeds(201, wire.CheckedServerResponse, 'server added', { server: EXAMPLE, findings: [FINDING_EXAMPLE] }),
  errors: ['invalid_name', 'unique_violation', 'outcome_unknown'],
  async handle(call) {
    const body = call.request.body as wire.AddServerBody;
    const { engine = 'postgres', tenancy = defaultOccupancy(engine), labels = {}, weight = 1 } = body;
    const newServer = {
      name: body.name,
      urlReference: body.url_reference,
      engine,
      tenancy,
      labels,
      weight,
      maxProjects: null,
      maxBytes: null,
      maxConnections: null,
      ...changeOf(body),
    };
    const { addServer } = await changes();
    return {
      body: checkedResponse('server added', await addServer(call.engine, newServer, auditOriginOf(call.request))),
    };
  },
};

const READ_SERVER: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/servers/:server',
  operationId: 'readServer',
  summary: 'Show one Postgres server',
  audit: { operation: 'server.read', isChange: false },
  params: ServerInPath,
  success: succeeds(200, wire.ServerResponse, 'server', { server: EXAMPLE }),
  errors: ['not_found'],
  async handle(call) {
    return { body: serverResponse('server', await serverNamed(call.engine.control.servers, serverInPath(call))) };
  },
};

const CHECK_SERVER: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/servers/:server/check',
  operationId: 'checkServer',
  summary: 'Check a Postgres server',
  description: '`findings` lists problems, including an unreachable server. `facts` is updated with what was measured.',
  audit: { operation: 'server.check', isChange: false },
  params: ServerInPath,
  success: succeeds(200, wire.CheckedServerResponse, 'server checked', {
    server: EXAMPLE,
    findings: [FINDING_EXAMPLE],
  }),
  errors: ['not_found'],
  async handle(call) {
    const { checkAndStoreFacts } = await changes();
    return { body: checkedResponse('server checked', await checkAndStoreFacts(call.engine, serverInPath(call))) };
  },
};

const CLEAR_SERVER: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/servers/:server/clear',
  operationId: 'clearServer',
  summary: 'Remove leftovers from a Postgres server',
  description:
    'Databases and roles that this installation has made there and that belong to no project or move, and slots and publications of moves that have ended. A database that somebody uses is kept.',
  audit: { operation: 'server.clear', isChange: true },
  params: ServerInPath,
  success: succeeds(200, wire.ClearedServerResponse, 'server cleared', {
    server: EXAMPLE,
    removed: ['database d_0123456789abcdef0123', 'role w_0123456789abcdef0123'],
    kept: [],
  }),
  errors: ['not_found'],
  async handle(call) {
    const { clearLeftovers } = await import('../../engine/servers/leftovers.js');
    const { server, removed, kept } = await clearLeftovers(call.engine, serverInPath(call));
    return { body: { ...serverResponse('server cleared', server), removed: [...removed], kept: [...kept] } };
  },
};

const SET_SERVER: Operation = {
  ...ADMIN,
  method: 'PUT',
  url: '/api/cdp/admin/servers/:server',
  operationId: 'setServer',
  summary: 'Change the status, labels, weight, bounds, replicas or address of a Postgres server',
  description:
    'Fields that the body leaves out keep their values. Existing projects stay on the server: another address must lead to the same server, with their databases.',
  audit: { operation: 'server.set', isChange: true },
  writesEntry: true,
  params: ServerInPath,
  body: wire.ChangeServerBody,
  example: { status: 'draining' },
  success: succeeds(200, wire.ServerResponse, 'server set', { server: { ...EXAMPLE, status: 'draining' } }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const body = call.request.body as wire.ChangeServerBody;
    const { status, url_reference: urlReference } = body;
    const change = {
      ...(status === undefined ? {} : { status }),
      ...(urlReference === undefined ? {} : { urlReference }),
      ...changeOf(body),
    };
    const { setServer } = await changes();
    const server = await setServer(call.engine, serverInPath(call), change, auditOriginOf(call.request));
    return { body: serverResponse('server set', server) };
  },
};

const REMOVE_SERVER: Operation = {
  ...ADMIN,
  method: 'DELETE',
  url: '/api/cdp/admin/servers/:server',
  operationId: 'removeServer',
  summary: 'Remove a Postgres server that no project lives on, or that is lost',
  description: 'The server itself stays as it is.',
  audit: { operation: 'server.remove', isChange: true },
  writesEntry: true,
  params: ServerInPath,
  query: wire.RemoveServerQuery,
  success: succeeds(200, wire.RemovedServerResponse, 'server removed', { server: EXAMPLE, deleted_projects: [] }),
  errors: ['not_found', 'dependent_objects', 'request_in_flight', 'outcome_unknown'],
  async handle(call) {
    const [name, by] = [serverInPath(call), auditOriginOf(call.request)];
    const { lost } = call.request.query as wire.RemoveServerQuery;
    if (lost !== undefined && lost !== name) {
      throw new EngineError('invalid_request', '"lost" must be the name of the server');
    }
    const { server, deleted } =
      lost === undefined
        ? { server: await (await changes()).removeServer(call.engine, name, by), deleted: [] }
        : await (await import('../../engine/servers/change-servers.js')).removeLostServer(call.engine, name, by);
    return { body: { ...serverResponse('server removed', server), deleted_projects: deleted } };
  },
};

/** The changes that a body asks for. */
function changeOf(body: Omit<wire.ChangeServerBody, 'status' | 'url_reference'>): ServerChange {
  const { labels, weight, max_projects: maxProjects, max_bytes: maxBytes, max_connections: maxConnections } = body;
  const { replicas, consistency } = body;
  const settings = Object.entries({ labels, weight, maxProjects, maxBytes, maxConnections, replicas, consistency });
  return Object.fromEntries(settings.filter(([, value]) => value !== undefined));
}

const serverResponse = (message: string, server: ServerRow): wire.ServerResponse => ({
  success: true,
  message,
  server: shownServer(server),
});

const checkedResponse = (message: string, { server, findings }: CheckedServer): wire.CheckedServerResponse => ({
  ...serverResponse(message, server),
  findings: [...findings],
});

const shownServer = (server: ServerRow): wire.Server => ({
  name: server.name,
  url_reference: server.urlReference,
  engine: server.engine,
  tenancy: server.tenancy,
  labels: server.labels,
  weight: server.weight,
  max_projects: server.maxProjects,
  max_bytes: server.maxBytes,
  max_connections: server.maxConnections,
  replicas: [...server.replicas],
  consistency: server.consistency,
  status: server.status,
  projects: server.projects,
  facts: server.facts as wire.ServerFacts | null,
  created_at: server.createdAt.toISOString(),
});

export const SERVERS: readonly Operation[] = [
  LIST_SERVERS,
  ADD_SERVER,
  READ_SERVER,
  SET_SERVER,
  REMOVE_SERVER,
  CHECK_SERVER,
  CLEAR_SERVER,
];
