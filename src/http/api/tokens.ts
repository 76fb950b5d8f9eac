/** Tokens over HTTP (contract C3): describing the caller's token, and managing tokens with an admin token. */
import { counted } from '../../contract/message-text.js';
import { SCOPES } from '../../contract/names.js';
import { Type } from '../../contract/schema.js';
import { NowQuery } from '../../contract/wire/projects.js';
import * as wire from '../../contract/wire/tokens.js';
import { limitsOf } from '../../engine/access/append-keys.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { endsNow, ProjectInPath, projectInPath, timeOf } from './call-inputs.js';
import { ADMIN, type Operation, succeeds } from './operation.js';

const TokenInPath = Type.Object({ project: Type.String(), token_id: Type.String() });

const TOKEN_EXAMPLE = {
  id: '5f3f2b8e-52a4-4c83-9a1a-6f0a6c2f5d10',
  name: 'importer',
  scopes: ['data:write'],
  role: null,
  limits: null,
  created_at: '2026-01-31T09:30:00.000Z',
  created_by: 'admin ops',
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
};

const ID = '0198c7a2-1f6e-7cc0-9a42-0d6e6f1b2c3d';

const READ_TOKEN: Operation = {
  method: 'GET',
  url: '/api/cdp/token',
  access: 'any',
  operationId: 'readToken',
  summary: 'Describe the token of the request',
  description: "Returns the token's project and scopes, or that it is an admin token.",
  tag: 'token',
  audit: { operation: 'token.read', isChange: false },
  slot: null,
  success: succeeds(200, wire.OwnTokenResponse, 'token found', {
    project: { id: ID, name: 'shop' },
    token: {
      id: ID,
      name: 'importer',
      admin: false,
      scopes: ['schema:read', 'data:write'],
      role: null,
      limits: null,
      expires_at: null,
    },
  }),
  errors: [],
  handle(call) {
    const { id, name, scopes, role, limits, project, expiresAt } = call.caller;
    const response: wire.OwnTokenResponse = {
      success: true,
      message: 'token found',
      project: project === null ? null : { id: project.id, name: project.name },
      token: {
        id,
        name,
        admin: project === null,
        scopes: SCOPES.filter((scope) => scopes.has(scope)),
        role,
        limits,
        expires_at: expiresAt?.toISOString() ?? null,
      },
    };
    return Promise.resolve({ body: response });
  },
};

const LIST_TOKENS: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/projects/:project/tokens',
  operationId: 'listTokens',
  summary: 'List the tokens of a project',
  audit: { operation: 'token.list', isChange: false },
  params: ProjectInPath,
  success: succeeds(200, wire.TokensResponse, '1 token', { tokens: [TOKEN_EXAMPLE] }),
  errors: ['not_found'],
  async handle(call) {
    const project = await call.engine.projects.get(projectInPath(call));
    const tokens = await call.engine.tokens.list(project.id);
    const message = counted(tokens.length, 'token');
    return { body: { success: true, message, tokens: tokens.map(wire.shownToken) } };
  },
};

const CREATE_TOKEN: Operation = {
  ...ADMIN,
  method: 'POST',
  url: '/api/cdp/admin/projects/:project/tokens',
  operationId: 'createToken',
  summary: 'Create a token (shown only once)',
  audit: { operation: 'token.create', isChange: true },
  writesEntry: true,
  params: ProjectInPath,
  body: wire.CreateTokenBody,
  example: { name: 'importer', scopes: ['data:write'] },
  success: succeeds(201, wire.CreateTokenResponse, 'token created', {
    token: `cdp_${'0'.repeat(49)}`,
    details: TOKEN_EXAMPLE,
  }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const { name, scopes, role, limits, expires_at: expires } = call.request.body as wire.CreateTokenBody;
    const project = await call.engine.projects.get(projectInPath(call));
    const expiresAt = expires == null ? null : timeOf('expires_at', expires);
    const options = { name, scopes, role, expiresAt, limits: limitsOf(scopes, limits) };
    const { token, details } = await call.engine.tokens.create(project.id, options, auditOriginOf(call.request));
    return { body: { success: true, message: 'token created', token, details: wire.shownToken(details) } };
  },
};

const REVOKE_TOKEN: Operation = {
  ...ADMIN,
  method: 'DELETE',
  url: '/api/cdp/admin/projects/:project/tokens/:token_id',
  operationId: 'revokeToken',
  summary: 'Revoke a token, on every instance within a second',
  audit: { operation: 'token.revoke', isChange: true },
  writesEntry: true,
  params: TokenInPath,
  query: NowQuery,
  success: succeeds(200, wire.TokenResponse, 'token revoked', { details: TOKEN_EXAMPLE }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const project = await call.engine.projects.get(projectInPath(call));
    const { token_id: id } = call.request.params as { token_id: string };
    const { request } = call;
    const which = { projectId: project.id, now: endsNow(request) };
    const details = await call.engine.tokens.revoke(id, which, auditOriginOf(request));
    return { body: { success: true, message: 'token revoked', details: wire.shownToken(details) } };
  },
};

export const TOKENS: readonly Operation[] = [READ_TOKEN, LIST_TOKENS, CREATE_TOKEN, REVOKE_TOKEN];
