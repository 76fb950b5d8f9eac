/** Postgres servers of projects, on the wire. */
import { SERVER_NAME_PATTERN } from '../names.js';
import { URL_REFERENCE } from '../patterns.js';
import { DOCUMENTED, STRICT, type Static, Type } from '../schema.js';
import { CONSISTENCIES, SERVER_ENGINES, SERVER_STATUSES, OCCUPANCIES } from '../servers.js';
import { Labels, success } from './fields.js';
import { Finding } from './findings.js';
import { replicasOfServer } from './replicas.js';

const MAX_INTEGER = 2_147_483_647;
const Bound = (maximum: number, description: string) =>
  Type.Optional(
    Type.Nullable(Type.Integer({ minimum: 1, maximum, description: `${description} null, the default: no limit.` })),
  );

/** Fields that can be changed later. */
const changeable = {
  labels: Type.Optional(Labels),
  weight: Type.Optional(
    Type.Number({
      minimum: 0.01,
      maximum: 1_000,
      description: 'A server with twice the weight gets twice as many projects. Default: 1.',
    }),
  ),
  max_projects: Bound(MAX_INTEGER, 'Projects.'),
  max_bytes: Bound(
    Number.MAX_SAFE_INTEGER,
    'The server accepts no new project once its projects have this many bytes on disk.',
  ),
  max_connections: Bound(MAX_INTEGER, "Limit of the connections of one instance to the server's projects."),
  ...replicasOfServer,
};

const UrlReference = Type.String({
  pattern: URL_REFERENCE,
  maxLength: 4_096,
  description:
    'Where every instance reads the URL with its password: `env:NAME`, an environment variable, or `file:/PATH`. The URL itself is not stored.',
  examples: ['env:EU_1_URL'],
});

export const AddServerBody = Type.Object(
  {
    name: Type.String({ examples: ['eu-1'], [DOCUMENTED]: { pattern: SERVER_NAME_PATTERN } }),
    url_reference: UrlReference,
    engine: Type.Optional(Type.Enum(SERVER_ENGINES, { description: 'Default: `postgres`.' })),
    tenancy: Type.Optional(
      Type.Enum(OCCUPANCIES, { description: '`dedicated`: reserved for a single project. Default: `shared`.' }),
    ),
    ...changeable,
  },
  STRICT,
);
export type AddServerBody = Static<typeof AddServerBody>;

export const ChangeServerBody = Type.Object(
  {
    status: Type.Optional(
      Type.Enum(SERVER_STATUSES, {
        description:
          '`closed`: it accepts no new project. `draining`: neither, and a rebalance moves its projects away.',
      }),
    ),
    url_reference: Type.Optional(UrlReference),
    ...changeable,
  },
  { ...STRICT, minProperties: 1 },
);
export type ChangeServerBody = Static<typeof ChangeServerBody>;

export const ServerFacts = Type.Object(
  {
    checked_at: Type.String({ format: 'date-time' }),
    version: Type.String({ examples: ['15.14 (Debian 15.14-0+deb12u1)'] }),
    latency_ms: Type.Number({ description: 'The median of a few round trips.' }),
    clock_ahead_ms: Type.Number({ description: "How far its clock is ahead of the instance's." }),
    connections: Type.Integer({ description: 'The number of connections that ordinary roles can have.' }),
    connections_used: Type.Integer(),
    bytes: Type.Integer({ description: 'Size of all its projects.' }),
  },
  { description: 'What the last check measured.' },
);
export type ServerFacts = Static<typeof ServerFacts>;

export const Server = Type.Object({
  name: Type.String(),
  url_reference: Type.Nullable(Type.String({ description: 'null for the default server.' })),
  engine: Type.Enum(SERVER_ENGINES),
  tenancy: Type.Enum(OCCUPANCIES),
  labels: Labels,
  weight: Type.Number(),
  max_projects: Type.Nullable(Type.Integer()),
  max_bytes: Type.Nullable(Type.Integer()),
  max_connections: Type.Nullable(Type.Integer()),
  replicas: Type.Array(Type.String(), { description: 'Where each instance reads the URLs of its streaming replicas.' }),
  consistency: Type.Enum(CONSISTENCIES),
  status: Type.Enum(SERVER_STATUSES),
  projects: Type.Integer({ description: 'The number of projects that live on it.' }),
  size_bytes: Type.Optional(
    Type.Integer({
      description: 'Bytes on disk of its projects now; only in the list, and missing if one cannot be measured.',
    }),
  ),
  facts: Type.Nullable(ServerFacts),
  created_at: Type.String({ format: 'date-time' }),
});
export type Server = Static<typeof Server>;

export const ServerResponse = Type.Object({ ...success, server: Server });
export type ServerResponse = Static<typeof ServerResponse>;

export const ServersResponse = Type.Object({ ...success, servers: Type.Array(Server) });
export type ServersResponse = Static<typeof ServersResponse>;

export const CheckedServerResponse = Type.Object({ ...success, server: Server, findings: Type.Array(Finding) });
export type CheckedServerResponse = Static<typeof CheckedServerResponse>;

export const ClearedServerResponse = Type.Object({
  ...success,
  server: Server,
  removed: Type.Array(Type.String(), { description: 'Databases, roles, slots and publications.' }),
  kept: Type.Array(Type.Object({ what: Type.String(), reason: Type.String() }), {
    description: 'What could not be removed, and why.',
  }),
});
export type ClearedServerResponse = Static<typeof ClearedServerResponse>;

export const RemoveServerQuery = Type.Object(
  {
    lost: Type.Optional(
      Type.String({
        description:
          'The name of the server, repeated to confirm that it is permanently lost. Its projects are deleted with their tokens, which cannot be undone; restore them from a backup.',
      }),
    ),
  },
  STRICT,
);
export type RemoveServerQuery = Static<typeof RemoveServerQuery>;

export const RemovedServerResponse = Type.Object({
  ...success,
  server: Server,
  deleted_projects: Type.Array(Type.String(), { description: 'The names of the projects that were deleted with it.' }),
});
export type RemovedServerResponse = Static<typeof RemovedServerResponse>;
