/** Projects and tokens on the wire (contract section 2). */
import { PROJECT_NAME_PATTERN, SCOPES } from '../names.js';
import { PROJECT_STATUSES } from '../projects.js';
import { DOCUMENTED, STRICT, type Static, Type } from '../schema.js';
import { success } from './success.js';

export const CreateProjectBody = Type.Object(
  { name: Type.String({ examples: ['shop'], [DOCUMENTED]: { pattern: PROJECT_NAME_PATTERN } }) },
  STRICT,
);
export type CreateProjectBody = Static<typeof CreateProjectBody>;

export const Project = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  status: Type.Enum(PROJECT_STATUSES),
  quota: Type.String({
    description: "Disk quota: a size, `default` (the service's setting) or `none`.",
    examples: ['10GB'],
  }),
  size_bytes: Type.Optional(Type.Integer({ description: 'Bytes on disk; in the list of all projects.' })),
  created_at: Type.String({ format: 'date-time' }),
});
export type Project = Static<typeof Project>;

export const ProjectAnswer = Type.Object({ ...success, project: Project });
export type ProjectAnswer = Static<typeof ProjectAnswer>;

export const RepairAnswer = Type.Object({ ...success, project: Project, repaired: Type.Array(Type.String()) });
export type RepairAnswer = Static<typeof RepairAnswer>;

export const ProjectsAnswer = Type.Object({ ...success, projects: Type.Array(Project) });
export type ProjectsAnswer = Static<typeof ProjectsAnswer>;

export const ProjectQuotaBody = Type.Object(
  { quota: Type.String({ description: 'A size such as `500MB` or `10GB`, `default` or `none`.', examples: ['10GB'] }) },
  STRICT,
);
export type ProjectQuotaBody = Static<typeof ProjectQuotaBody>;

export const DeleteProjectQuery = Type.Object(
  { confirm: Type.String({ description: "Repeat the project's name. Deletion cannot be undone." }) },
  STRICT,
);
export type DeleteProjectQuery = Static<typeof DeleteProjectQuery>;

export const Scope = Type.Enum(SCOPES);

const NullableTime = Type.Nullable(Type.String({ format: 'date-time' }));

export const CreateTokenBody = Type.Object(
  {
    name: Type.Optional(Type.String({ maxLength: 200, pattern: '^[^\\u0000]+$' })),
    scopes: Type.Optional(Type.Array(Scope, { minItems: 1, description: 'Default: all.' })),
    expires_at: Type.Optional(NullableTime),
  },
  STRICT,
);
export type CreateTokenBody = Static<typeof CreateTokenBody>;

export const Token = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  scopes: Type.Array(Scope),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: NullableTime,
  revoked_at: NullableTime,
  last_used_at: NullableTime,
});
export type Token = Static<typeof Token>;

export const CreateTokenAnswer = Type.Object({
  ...success,
  token: Type.String({ description: 'Shown only once; only its hash is stored.' }),
  details: Token,
});
export type CreateTokenAnswer = Static<typeof CreateTokenAnswer>;

export const TokensAnswer = Type.Object({ ...success, tokens: Type.Array(Token) });
export type TokensAnswer = Static<typeof TokensAnswer>;

export const TokenAnswer = Type.Object({ ...success, details: Token });
export type TokenAnswer = Static<typeof TokenAnswer>;

/** What a token may know of itself. */
export const OwnTokenAnswer = Type.Object({
  ...success,
  project: Type.Object({ id: Type.String({ format: 'uuid' }), name: Type.String() }),
  token: Type.Object({
    id: Type.String({ description: 'The subject of a JWT.' }),
    name: Type.Nullable(Type.String({ description: 'null for a JWT.' })),
    scopes: Type.Array(Scope),
  }),
});
export type OwnTokenAnswer = Static<typeof OwnTokenAnswer>;
