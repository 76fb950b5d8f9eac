/**
 * Bearer tokens (contract C3.6): `cdp_`, 43 base62 characters of 32 random bytes, 6 of checksum. Only their
 * SHA-256 is stored. This file creates, lists and revokes them; `authenticate.ts` looks them up.
 */
import { hash as digest, randomBytes, randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { EngineError } from '../../contract/errors.js';
import { DEFAULT_SCOPES, type Scope } from '../../contract/names.js';
import type { TokenLimits } from '../../contract/wire/token-limits.js';
import { quoted } from '../../contract/message-text.js';
import { isUuid } from '../../contract/patterns.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectRow, TokenRow } from '../../tenancy/control/control-rows.js';
import { PROJECT_ROLES } from '../../tenancy/placement.js';
import { BY_ITSELF, type AuditOrigin } from '../../contract/audit.js';
import { type Audit, authorOf } from '../audit/audit.js';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const FORMAT = /^cdp_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

/**
 * How long a look-up of a token or its project in the control database may be reused: revocation and deactivation take
 * effect within one second (contract C3.8).
 */
export const FRESH_MS = 750;

/** The sender of a request. */
export interface Caller {
  /** The token's id, or the subject of a JWT; for logs. */
  readonly id: string;
  /** The token's name; null: a JWT. */
  readonly name: string | null;
  /** null: it never expires. */
  readonly expiresAt: Date | null;
  readonly scopes: ReadonlySet<Scope>;
  /** null: an administrator, who manages projects and tokens but has no access to project data. */
  readonly project: ProjectRow | null;
  /** The role as which it acts, one that the project has made; null: its scopes decide between writer and reader. */
  readonly role: string | null;
  /** null: nothing narrows it but its scopes. */
  readonly limits: TokenLimits | null;
}

/** The users as which a caller may connect: `writer` and `reader`, or only the role as which its token acts. */
export const usersOf = ({ role }: Pick<Caller, 'role'>): readonly string[] => (role === null ? PROJECT_ROLES : [role]);

interface NewToken {
  /** Shown only once. */
  token: string;
  details: TokenRow;
}

export class Tokens {
  constructor(
    private readonly control: ControlDatabase,
    private readonly audit: Audit,
  ) {}

  /**
   * @param projectId null for an admin token, which has no scopes
   * @throws EngineError not_found if the project has no such role, or has just been deleted; database_unavailable;
   * outcome_unknown
   */
  async create(
    projectId: string | null,
    options: {
      name?: string | undefined;
      scopes?: readonly Scope[] | undefined;
      expiresAt?: Date | null;
      role?: string | null | undefined;
      limits?: TokenLimits | null;
    } = {},
    by: AuditOrigin = BY_ITSELF,
  ): Promise<NewToken> {
    const token = generateToken();
    const details: TokenRow = {
      id: randomUUID(),
      projectId,
      name: options.name ?? (projectId === null ? 'admin' : 'default'),
      scopes: projectId === null ? [] : [...(options.scopes ?? DEFAULT_SCOPES)],
      createdAt: new Date(),
      role: options.role ?? null,
      limits: options.limits ?? null,
      createdBy: authorOf(by),
      expiresAt: options.expiresAt ?? null,
      revokedAt: null,
      lastUsedAt: null,
    };
    const entry = this.audit.entryOfChange(by, { operation: 'token.create', object: details.id });
    const isStored = await this.control.tokens
      .insert({ ...details, sha256: sha256(token) }, entry)
      .catch((error: unknown) => {
        throw isOutcomeUnknown(error) ? perhapsStored(details.id, error) : error;
      });
    if (!isStored) {
      const { role } = details;
      const wasDeleted =
        role === null || projectId === null || (await this.control.projects.find('id', projectId)) === null;
      if (wasDeleted) throw new EngineError('not_found', 'The project of this token was deleted');
      const roles = await this.control.roles.list(projectId);
      throw new EngineError('not_found', `The project has no role ${quoted(role)}`, {
        hint: `${roles.length === 0 ? 'It has made none' : `Its roles: ${roles.map(({ name }) => name).join(', ')}`}. Without a role, a token acts as writer or reader, by its scopes.`,
      });
    }
    return { token, details };
  }

  list(projectId: string | null): Promise<TokenRow[]> {
    return this.control.tokens.list(projectId);
  }

  /**
   * @param which `projectId`: only a token of that project, undefined: any; `now`: also end running requests that use it
   * @throws EngineError not_found, database_unavailable, outcome_unknown
   */
  async revoke(
    id: string,
    { projectId, now = false }: { projectId?: string | null; now?: boolean },
    by: AuditOrigin,
  ): Promise<TokenRow> {
    const entry = this.audit.entryOfChange(by, { operation: 'token.revoke', object: id.toLowerCase() });
    const revoked = isUuid(id) ? await this.control.tokens.revoke(id, projectId, now, entry) : null;
    if (revoked === null) throw new EngineError('not_found', 'There is no token with this id');
    return revoked;
  }
}

const isOutcomeUnknown = (error: unknown): error is EngineError =>
  error instanceof EngineError && error.code === 'outcome_unknown';

/** Nobody has seen its text, which only its hash could tell. */
const perhapsStored = (id: string, { message, cause }: EngineError): EngineError =>
  new EngineError('outcome_unknown', `${message}. The id of the new token is ${id}`, {
    hint: 'Nobody knows the token itself: if it is in the list of tokens, revoke it, and create another one.',
    cause,
    retryAfter: null,
  });

function generateToken(): string {
  const body = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return `cdp_${body}${checksum(body)}`;
}

/** Detects mistyped tokens without a query. */
export function checksumMatches(token: string): boolean {
  const match = FORMAT.exec(token);
  return match !== null && checksum(match[1] ?? '') === match[2];
}

const checksum = (body: string): string => base62(BigInt(crc32(body)), 6);

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest /= 62n) text = (ALPHABET[Number(rest % 62n)] ?? '') + text;
  return text;
}

export const sha256 = (token: string): string => digest('sha256', token, 'hex');

/** Compares with the system clock. */
export const isExpired = ({ expiresAt }: Pick<Caller, 'expiresAt'>): boolean =>
  expiresAt !== null && expiresAt.getTime() <= Date.now();
