/**
 * Access tokens of the operator's own identity provider (RFC 7519, contract C3.12): signed by a key of its JWKS,
 * with the claims `project`, `scope`, `exp` and `aud`, and perhaps `role`.
 */
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import { EngineError } from '../../contract/errors.js';
import { isProjectName, isRoleName, SCOPES, type Scope } from '../../contract/names.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { type Caller, FRESH_MS } from './tokens.js';

export interface JwtSettings {
  issuer: string;
  audience: string;
  jwksUrl: URL;
}

/** Only signatures by the provider's private key: a shared secret, or no signature, is never accepted. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];

/** The last second that a Date can hold (ECMA-262 section 21.4.1.1); a token that expires later never expires. */
const LAST_SECOND = 8_640_000_000_000;

/** A token with an unknown key makes the service fetch the provider's keys, at most this often. */
const KEYS_FRESH_MS = 1_000;

/** Errors in the provider's response, not in the token. */
const PROVIDER_FAULTS: ReadonlySet<string> = new Set([
  errors.JWKSTimeout.code,
  errors.JWKSInvalid.code,
  errors.JOSEError.code, // another status than 200, or no JSON
]);

/** How many projects, and how many roles, are remembered, and how long. */
const FRESH = { max: 10_000, ttl: FRESH_MS, ttlResolution: 0 };

export class JwtVerifier {
  private readonly keys: ReturnType<typeof createRemoteJWKSet>;
  private readonly projects = new LRUCache<string, Promise<ProjectRow | null>>(FRESH);
  /** Whether a project has a role, by the project's id and its name. */
  private readonly roles = new LRUCache<string, Promise<boolean>>(FRESH);

  constructor(
    private readonly settings: JwtSettings,
    private readonly control: ControlDatabase,
  ) {
    this.keys = createRemoteJWKSet(settings.jwksUrl, { cooldownDuration: KEYS_FRESH_MS });
  }

  /** Three base64url parts, which a token of our own never has. */
  accepts(token: string): boolean {
    return /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token);
  }

  /** @throws EngineError unauthorized, token_expired; database_unavailable if the provider's keys cannot be fetched */
  async authenticate(token: string): Promise<Caller> {
    const claims = await this.verify(token);
    const { project: name, scope, sub, role = null, exp = 0 } = claims;
    if (typeof name !== 'string') throw new EngineError('unauthorized', 'The token has no claim "project"');
    // All objects look the same as a text, and so would callers in the audit log and in their rate.
    if (sub !== undefined && typeof sub !== 'string')
      throw new EngineError('unauthorized', 'The claim "sub" of the token must be a string');
    const project = isProjectName(name) ? await this.project(name) : null;
    if (project === null)
      throw new EngineError('unauthorized', 'The token names a project that this service does not have');
    if (role !== null && !(typeof role === 'string' && (await this.hasRole(project, role))))
      throw new EngineError('unauthorized', 'The token names a role that its project has not made');
    const expiresAt = exp <= LAST_SECOND ? new Date(exp * 1_000) : null;
    return {
      id: `jwt:${sub ?? ''}`,
      name: null,
      expiresAt,
      scopes: new Set(scopesOf(scope)),
      project,
      role,
      limits: null,
    };
  }

  private async verify(token: string): Promise<JWTPayload> {
    const { issuer, audience } = this.settings;
    try {
      const options = { issuer, audience, algorithms: ALGORITHMS, requiredClaims: ['exp'] };
      return (await jwtVerify(token, this.keys, options)).payload;
    } catch (cause) {
      if (cause instanceof errors.JWTExpired)
        throw new EngineError('token_expired', 'The token has expired', { cause });
      if (cause instanceof errors.JOSEError && !PROVIDER_FAULTS.has(cause.code)) {
        throw new EngineError('unauthorized', 'The token is not valid', { cause });
      }
      throw new EngineError('database_unavailable', "The identity provider's keys cannot be fetched at the moment", {
        dependency: 'identity provider',
        // The error of `fetch` only says that it failed; its cause says why.
        cause: cause instanceof TypeError ? (cause.cause ?? cause) : cause,
      });
    }
  }

  private project(name: string): Promise<ProjectRow | null> {
    return remembered(this.projects, name, () => this.control.projects.find('name', name));
  }

  private hasRole({ id }: ProjectRow, role: string): Promise<boolean> {
    if (!isRoleName(role)) return Promise.resolve(false);
    return remembered(this.roles, `${id} ${role}`, () => this.control.roles.exists(id, role));
  }
}

/** What is remembered under the key, or what `lookUp` finds. A failed look-up is not remembered. */
function remembered<T>(known: LRUCache<string, Promise<T>>, key: string, lookUp: () => Promise<T>): Promise<T> {
  const cached = known.get(key);
  if (cached !== undefined) return cached;
  const found = lookUp();
  known.set(key, found);
  found.catch(() => {
    if (known.peek(key) === found) known.delete(key);
  });
  return found;
}

/** A space-separated string (RFC 8693 section 4.2), or an array as some providers send. */
function scopesOf(claim: unknown): Scope[] {
  const scopes: unknown[] = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : [];
  return SCOPES.filter((scope) => scopes.includes(scope));
}
