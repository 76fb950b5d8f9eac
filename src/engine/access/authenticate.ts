/**
 * Who sent a request, by its token: one of ours, or a JWT of the operator's identity provider. What a token may do is
 * looked up at most {@link FRESH_MS} after it changed, on every instance.
 */
import { LRUCache } from 'lru-cache';
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { SCOPES } from '../../contract/names.js';
import type { ControlDatabase } from '../../tenancy/control.js';
import type { TokenRow } from '../../tenancy/control-rows.js';
import type { JwtVerifier } from './jwt.js';
import { type Caller, hasChecksum, isOver, sha256 } from './tokens.js';
import type { WrongTokens } from './wrong-tokens.js';

/**
 * How long an answer of the control database may be reused. Then it is asked whether anything has changed, for all
 * tokens together. Revocation takes effect within one second (contract 2).
 */
const FRESH_MS = 750;

/** Tokens that are remembered, good and wrong ones each; a flood of wrong ones must not fill memory. */
const REMEMBERED = 10_000;

/** What the control database says of a token that is not good. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'token_expired']);

/** A token's last use is written at most this often. */
const TOUCH_EVERY_MS = 60_000;

/** A token that was good when it was last looked up. It still is, as long as nothing has changed since. */
interface Good {
  readonly caller: Caller;
  readonly token: TokenRow;
  /** The number of changes before it was looked up. */
  readonly changes: string;
}

/** An answer of the control database, and when it was asked for, by `performance.now()`: the clock may be set back. */
interface Answer<T> {
  readonly value: Promise<T>;
  readonly at: number;
}

export class Authenticator {
  private readonly good = new LRUCache<string, Good>({ max: REMEMBERED });
  /** Apart from the good ones, so that a flood of wrong tokens does not push those out. */
  private readonly answers = new LRUCache<string, Answer<Caller>>({ max: REMEMBERED });
  private changes: Answer<string> | null = null;
  /** As of that number of changes. */
  private endedTokens: { changes: string | null; ids: ReadonlySet<string> } = { changes: null, ids: new Set() };
  private readonly touched = new Map<string, number>();

  /** @param jwt null: there is no identity provider */
  constructor(
    private readonly control: ControlDatabase,
    private readonly wrongTokens: WrongTokens,
    private readonly jwt: JwtVerifier | null,
  ) {}

  /**
   * @param address of the client, by which wrong tokens are counted
   * @throws EngineError unauthorized, token_expired, rate_limited, database_unavailable
   */
  async authenticate(token: string, address: string): Promise<Caller> {
    try {
      // A JWT is verified without a question to the database.
      if (this.jwt?.accepts(token)) return await this.jwt.authenticate(token);
      return await this.callerOf(token, address);
    } catch (error) {
      if (error instanceof EngineError && error.code === 'unauthorized') throw this.wrongTokens.refused(address, error);
      throw error;
    }
  }

  /**
   * Ids of the tokens that were revoked lately and whose requests are to end. @throws EngineError database_unavailable
   */
  async ended(): Promise<ReadonlySet<string>> {
    const changes = await this.changesNow();
    if (this.endedTokens.changes !== changes) {
      this.endedTokens = { changes, ids: new Set(await this.control.endedTokens()) };
    }
    return this.endedTokens.ids;
  }

  private async callerOf(token: string, address: string): Promise<Caller> {
    const hash = sha256(token);
    const good = this.good.get(hash);
    if (good !== undefined && !isOver(good.token) && (await this.changesNow()) === good.changes) {
      this.touch(good.token.id);
      return good.caller;
    }
    const answer = this.answers.get(hash);
    if (answer !== undefined && isFresh(answer)) return answer.value;
    if (!hasChecksum(token)) throw unauthorized();
    // A token that was good lately is no guess.
    if (good !== undefined) return this.ask(hash);
    const answered = this.wrongTokens.beforeQuestion(address);
    return this.ask(hash).finally(answered);
  }

  /** The number of changes at some moment of the last {@link FRESH_MS}. */
  private changesNow(): Promise<string> {
    if (this.changes !== null && isFresh(this.changes)) return this.changes.value;
    const changes = { value: this.control.changes(), at: performance.now() };
    this.changes = changes;
    // A failure of the database is not an answer.
    changes.value.catch(() => {
      if (this.changes === changes) this.changes = null;
    });
    return changes.value;
  }

  private ask(hash: string): Promise<Caller> {
    const value = this.changesNow().then((changes) => this.lookUp(hash, changes));
    this.answers.set(hash, { value, at: performance.now() });
    value.catch((error: unknown) => {
      const isAnswer = error instanceof EngineError && REFUSALS.has(error.code);
      if (isAnswer) this.good.delete(hash);
      else this.answers.delete(hash);
    });
    return value;
  }

  private async lookUp(hash: string, changes: string): Promise<Caller> {
    const found = await this.control.tokenByHash(hash);
    if (found === null || found.token.revokedAt !== null) throw unauthorized();
    const { token, project } = found;
    if (isOver(token)) throw new EngineError('token_expired', `The token expired at ${token.expiresAt?.toISOString()}`);
    const scopes = SCOPES.filter((scope) => token.scopes.includes(scope));
    const { id, name, expiresAt } = token;
    const caller = { id, name, expiresAt, scopes: new Set(scopes), project };
    this.good.set(hash, { caller, token, changes });
    this.touch(token.id);
    return caller;
  }

  private touch(id: string): void {
    const now = performance.now();
    if (now - (this.touched.get(id) ?? -Infinity) < TOUCH_EVERY_MS) return;
    this.touched.set(id, now);
    // The last use is for the operator's eyes; failing to note it must not fail the request.
    this.control.touchTokens([id]).catch(() => this.touched.delete(id));
  }
}

const isFresh = ({ at }: { at: number }): boolean => performance.now() - at < FRESH_MS;

const unauthorized = () => new EngineError('unauthorized', 'The bearer token is not valid');
