/**
 * Identifies the sender of a request by its token: one of ours, or a JWT from the operator's identity provider. A
 * change to a token takes effect on every instance within {@link FRESH_MS}.
 */
import { LRUCache } from 'lru-cache';
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { SCOPES } from '../../contract/names.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { TokenRow } from '../../tenancy/control/control-rows.js';
import type { JwtVerifier } from './jwt.js';
import { type Caller, checksumMatches, FRESH_MS, isExpired, sha256 } from './tokens.js';
import type { WrongTokenLimiter } from './rate-limits.js';

/**
 * Maximum number of valid tokens, and of wrong ones, that are remembered: a flood of wrong tokens must not fill memory.
 */
const REMEMBERED = 10_000;

/** Error codes for a token that is not valid. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'token_expired']);

/** How often a token's last use is stored, at most. */
const TOUCH_EVERY_MS = 60_000;

/** A token that was valid at its last look-up. It still is if nothing has changed since. */
interface ValidToken {
  readonly caller: Caller;
  readonly token: TokenRow;
  /** The number of changes before the look-up. */
  readonly changeCount: string;
}

export class Authenticator {
  private readonly valid = new LRUCache<string, ValidToken>({ max: REMEMBERED });
  /** Separate from the valid tokens, so that a flood of wrong ones does not evict them. */
  private readonly lookUps = new LRUCache<string, Promise<Caller>>({
    max: REMEMBERED,
    ttl: FRESH_MS,
    ttlResolution: 0,
  });
  /** The number of changes, and the `performance.now()` of its query: the system clock may be set back. */
  private changes: { readonly value: Promise<string>; readonly at: number } | null = null;
  /** The tokens that had been revoked at that number of changes. */
  private endedTokens: { changes: string | null; ids: ReadonlySet<string> } = { changes: null, ids: new Set() };
  /** The origins that pages may have which use a token, at that number of changes. */
  private pageOrigins: { changes: string | null; origins: ReadonlySet<string> } = { changes: null, origins: new Set() };
  /** Ids of tokens whose last use was stored lately. */
  private readonly touched = new LRUCache<string, true>({ max: REMEMBERED, ttl: TOUCH_EVERY_MS, ttlResolution: 0 });

  /** @param jwt null: no identity provider */
  constructor(
    private readonly control: ControlDatabase,
    private readonly wrongTokens: WrongTokenLimiter,
    private readonly jwt: JwtVerifier | null,
  ) {}

  /**
   * @param address of the client; wrong tokens are counted by address
   * @throws EngineError unauthorized, token_expired, rate_limited, database_unavailable
   */
  async authenticate(token: string, address: string): Promise<Caller> {
    try {
      return await this.callerOf(token, () => this.wrongTokens.beginLookUp(address));
    } catch (error) {
      if (error instanceof EngineError && error.code === 'unauthorized')
        throw this.wrongTokens.countWrongToken(address, error);
      throw error;
    }
  }

  /**
   * Asks again for a token that was valid when its session began. It is not a guess, so the limit of its address does not
   * apply: it would hide whether the token is still valid.
   * @throws EngineError unauthorized, token_expired, database_unavailable
   */
  authenticateAgain(token: string): Promise<Caller> {
    return this.callerOf(token, () => () => {});
  }

  /** Ids of tokens that were recently revoked with their running requests. @throws EngineError database_unavailable */
  async endedTokenIds(): Promise<ReadonlySet<string>> {
    const changes = await this.changesNow();
    if (this.endedTokens.changes !== changes) {
      this.endedTokens = { changes, ids: new Set(await this.control.tokens.endedIds()) };
    }
    return this.endedTokens.ids;
  }

  /** Whether a valid token may be used by pages of this origin. @throws EngineError database_unavailable */
  async isPageOrigin(origin: string): Promise<boolean> {
    const changes = await this.changesNow();
    if (this.pageOrigins.changes !== changes) {
      this.pageOrigins = { changes, origins: new Set(await this.control.tokens.origins()) };
    }
    return this.pageOrigins.origins.has(origin);
  }

  /** @param beginLookUp called before the look-up of a token that is not known to have been valid; returns its end */
  private async callerOf(token: string, beginLookUp: () => () => void): Promise<Caller> {
    // Verifying a JWT takes no query.
    if (this.jwt?.accepts(token)) return this.jwt.authenticate(token);
    const hash = sha256(token);
    const valid = this.valid.get(hash);
    if (valid !== undefined && !isExpired(valid.token) && (await this.changesNow()) === valid.changeCount) {
      this.touch(valid.token.id);
      return valid.caller;
    }
    const lookUp = this.lookUps.get(hash);
    if (lookUp !== undefined) return lookUp;
    if (!checksumMatches(token)) throw unauthorized();
    // A token that was valid recently is not a guess.
    if (valid !== undefined) return this.startLookUp(hash);
    const endLookUp = beginLookUp();
    return this.startLookUp(hash).finally(endLookUp);
  }

  /** The number of changes, at most {@link FRESH_MS} old. One query asks for it. */
  private changesNow(): Promise<string> {
    if (this.changes !== null && performance.now() - this.changes.at < FRESH_MS) return this.changes.value;
    const changes = { value: this.control.changes(), at: performance.now() };
    this.changes = changes;
    // A failed query must not be reused.
    changes.value.catch(() => {
      if (this.changes === changes) this.changes = null;
    });
    return changes.value;
  }

  private startLookUp(hash: string): Promise<Caller> {
    const lookUp = this.changesNow().then((changes) => this.lookUp(hash, changes));
    this.lookUps.set(hash, lookUp);
    lookUp.catch((error: unknown) => {
      const isRefusal = error instanceof EngineError && REFUSALS.has(error.code);
      if (isRefusal) this.valid.delete(hash);
      else if (this.lookUps.peek(hash) === lookUp) this.lookUps.delete(hash);
    });
    return lookUp;
  }

  private async lookUp(hash: string, changes: string): Promise<Caller> {
    const stored = await this.control.tokens.byHash(hash);
    if (stored === null || stored.token.revokedAt !== null) throw unauthorized();
    const { token, project } = stored;
    if (isExpired(token))
      throw new EngineError('token_expired', `The token expired at ${token.expiresAt?.toISOString()}`);
    const scopes = SCOPES.filter((scope) => token.scopes.includes(scope));
    const { id, name, expiresAt, role, limits } = token;
    const caller = { id, name, expiresAt, scopes: new Set(scopes), project, role, limits };
    this.valid.set(hash, { caller, token, changeCount: changes });
    this.touch(token.id);
    return caller;
  }

  private touch(id: string): void {
    if (this.touched.get(id)) return;
    this.touched.set(id, true);
    // The last use only informs the operator; if it cannot be stored, the request still succeeds.
    this.control.tokens.touch([id]).catch(() => this.touched.delete(id));
  }
}

const unauthorized = () => new EngineError('unauthorized', 'The bearer token is not valid');
