/** Tokens on the wire (contract section 2). */
import { SCOPES } from '../names.js';
import { ANY_TEXT } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './success.js';

export const Scope = Type.Enum(SCOPES);

const NullableTime = Type.Nullable(Type.String({ format: 'date-time' }));

export const CreateTokenBody = Type.Object(
  {
    name: Type.Optional(Type.String({ maxLength: 200, pattern: ANY_TEXT })),
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
    expires_at: NullableTime,
  }),
});
export type OwnTokenResponse = Static<typeof OwnTokenResponse>;
