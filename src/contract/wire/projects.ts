/** Projects on the wire (contract C3, C16). */
import { PROJECT_NAME_PATTERN } from '../names.js';
import { PROJECT_STATUSES } from '../projects.js';
import { Labels, success } from './fields.js';
import { DOCUMENTED, STRICT, type Static, Type } from '../schema.js';

export const CreateProjectBody = Type.Object(
  {
    name: Type.String({ examples: ['shop'], [DOCUMENTED]: { pattern: PROJECT_NAME_PATTERN } }),
    server: Type.Optional(
      Type.String({
        description: 'The Postgres server to create it on. Default: the least loaded one that accepts projects.',
        examples: ['default'],
      }),
    ),
    labels: Type.Optional({
      ...Labels,
      description: 'Labels that the server must have. They cannot be combined with `server`.',
    }),
  },
  STRICT,
);
export type CreateProjectBody = Static<typeof CreateProjectBody>;

export const RenameProjectBody = Type.Object(
  {
    name: Type.String({
      description: 'The new name.',
      examples: ['store'],
      [DOCUMENTED]: { pattern: PROJECT_NAME_PATTERN },
    }),
  },
  STRICT,
);
export type RenameProjectBody = Static<typeof RenameProjectBody>;

export const Project = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  status: Type.Enum(PROJECT_STATUSES),
  quota: Type.String({
    description: "The disk quota: a size, `default` (the service's setting) or `none`.",
    examples: ['10GB'],
  }),
  own_schemas: Type.Boolean({ description: 'Whether SQL of the project may create schemas other than `data`.' }),
  size_bytes: Type.Optional(Type.Integer({ description: 'Bytes on disk; only in the list of all projects.' })),
  server: Type.String({ description: 'The Postgres server that it lives on.', examples: ['default'] }),
  created_at: Type.String({ format: 'date-time' }),
});
export type Project = Static<typeof Project>;

export const ProjectResponse = Type.Object({ ...success, project: Project });
export type ProjectResponse = Static<typeof ProjectResponse>;

export const RepairResponse = Type.Object({ ...success, project: Project, repaired: Type.Array(Type.String()) });
export type RepairResponse = Static<typeof RepairResponse>;

export const ProjectsResponse = Type.Object({ ...success, projects: Type.Array(Project) });
export type ProjectsResponse = Static<typeof ProjectsResponse>;

export const ProjectQuotaBody = Type.Object(
  { quota: Type.String({ description: 'A size such as `500MB` or `10GB`, `default` or `none`.', examples: ['10GB'] }) },
  STRICT,
);
export type ProjectQuotaBody = Static<typeof ProjectQuotaBody>;

export const ProjectSchemasBody = Type.Object(
  { own_schemas: Type.Boolean({ description: 'Whether SQL of the project may create schemas other than `data`.' }) },
  STRICT,
);
export type ProjectSchemasBody = Static<typeof ProjectSchemasBody>;

export const DeleteProjectQuery = Type.Object(
  { confirm: Type.String({ description: "Repeat the project's name. Deletion cannot be undone." }) },
  STRICT,
);
export type DeleteProjectQuery = Static<typeof DeleteProjectQuery>;

export const RepairQuery = Type.Object(
  {
    reader_reads_all: Type.Optional(
      Type.Enum(['true', 'false'], {
        description:
          '`true`: the reader may see everything in the project again, and all that it creates later. Default: what the project has revoked stays revoked.',
      }),
    ),
    writer_writes_all: Type.Optional(
      Type.Enum(['true', 'false'], {
        description:
          '`true`: the writer has all rights to its own objects again. Default: what it has revoked stays revoked.',
      }),
    ),
  },
  STRICT,
);
export type RepairQuery = Static<typeof RepairQuery>;

export const NowQuery = Type.Object(
  {
    now: Type.Optional(
      Type.Enum(['true', 'false'], {
        description: '`true`: end requests that are still running. Default: let them end.',
      }),
    ),
  },
  STRICT,
);
export type NowQuery = Static<typeof NowQuery>;
