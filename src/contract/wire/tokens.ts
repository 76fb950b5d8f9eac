/** Tokens on the wire (contract C3). */
import { SCOPES } from '../names.js';
import { ANY_TEXT } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './fields.js';
import { NewTokenLimits, TokenLimits } from './token-limits.js';

export const Scope = Type.Enum(SCOPES);

const NullableTime = Type.Nullable(Type.String({ format: 'date-time' }));

export const CreateTokenBody = Type.Object(
  {
    name: Type.Optional(Type.String({ maxLength: 200, pattern: ANY_TEXT })),
    scopes: Type.Optional(
      Type.Array(Scope, { minItems: 1, description: 'Default: all; `data:write` includes `data:append`.' }),
    ),
    expires_at: Type.Optional(NullableTime),
    role: Type.Optional(
      Type.Nullable(
        Type.String({
          description: 'A role of the project, as which the token does everything. Default: its scopes decide.',
          examples: ['intern'],
        }),
      ),
    ),
    limits: Type.Optional(NewTokenLimits),
  },
  STRICT,
);
export type CreateTokenBody = Static<typeof CreateTokenBody>;

export const Token = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  scopes: Type.Array(Scope),
  role: Type.Nullable(Type.String({ description: 'The role of the project as which it acts.' })),
  limits: Type.Nullable(TokenLimits),
  created_at: Type.String({ format: 'date-time' }),
  created_by: Type.Nullable(
    Type.String({
      description:
        'The actor of the audit log, and its name: `admin ops`, `command_line root`; `service`: the first start. null for tokens of earlier versions.',
    }),
  ),
  expires_at: NullableTime,
  revoked_at: NullableTime,
  last_used_at: NullableTime,
});
export type Token = Static<typeof Token>;

/** A token as the API and backups show it. */
export const shownToken = (token: {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly role: string | null;
  readonly limits: TokenLimits | null;
  readonly createdAt: Date;
  readonly createdBy: string | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  readonly lastUsedAt: Date | null;
}): Token => ({
  id: token.id,
  name: token.name,
  // Only known scopes are stored.
  scopes: [...token.scopes] as Token['scopes'],
  role: token.role,
  limits: token.limits,
  created_at: token.createdAt.toISOString(),
  created_by: token.createdBy,
  expires_at: token.expiresAt?.toISOString() ?? null,
  revoked_at: token.revokedAt?.toISOString() ?? null,
  last_used_at: token.lastUsedAt?.toISOString() ?? null,
});

export const CreateTokenResponse = Type.Object({
  ...success,
  token: Type.String({ description: 'Shown only once; only its hash is stored.' }),
  details: Token,
});
export type CreateTokenResponse = Static<typeof CreateTokenResponse>;

export const TokensResponse = Type.Object({ ...success, tokens: Type.Array(Token) });
export type TokensResponse = Static<typeof TokensResponse>;

export const TokenResponse = Type.Object({ ...success, details: Token });
export type TokenResponse = Static<typeof TokenResponse>;

/** What a token may read about itself. */
export const OwnTokenResponse = Type.Object({
  ...success,
  project: Type.Nullable(
    Type.Object(
      { id: Type.String({ format: 'uuid' }), name: Type.String() },
      { description: 'null for an admin token.' },
    ),
  ),
  token: Type.Object({
    id: Type.String({ description: 'The subject of a JWT.' }),
    name: Type.Nullable(Type.String({ description: 'null for a JWT.' })),
    admin: Type.Boolean({ description: 'An admin token manages projects and tokens, and has no scopes.' }),
    scopes: Type.Array(Scope),
    role: Type.Nullable(Type.String()),
    limits: Type.Nullable(TokenLimits),
    expires_at: NullableTime,
  }),
});
export type OwnTokenResponse = Static<typeof OwnTokenResponse>;
