/**
 * Bearer tokens (contract section 2): `cdp_`, 43 base62 characters of 32 random bytes, 6 of checksum. Only their SHA-256
 * is stored. What a token may do is looked up at most {@link FRESH_MS} after it changed, on every instance.
 */
import { hash as digest, randomBytes, randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { LRUCache } from 'lru-cache';
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { SCOPES, type Scope } from '../../contract/names.js';
import type { ControlDatabase } from '../../tenancy/control.js';
import type { ProjectRow, TokenRow } from '../../tenancy/control-rows.js';
import { type Audit, BY_ITSELF, type Origin } from '../audit/audit.js';

export type { TokenRow } from '../../tenancy/control-rows.js';

/**
 * How long an answer of the control database may be reused. Then it is asked whether anything has changed, for all tokens
 * together. Revocation takes effect within one second (contract 2).
 */
const FRESH_MS = 750;

/** Tokens that are remembered, good and wrong ones each; a flood of wrong ones must not fill memory. */
const REMEMBERED = 10_000;

/** What the control database says of a token that is not good. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'token_expired']);

/** A token's last use is written at most this often. */
const TOUCH_EVERY_MS = 60_000;

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const FORMAT = /^cdp_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

/** Who sent a request. */
export interface Caller {
  /** Of the token, or the subject of a JWT; for logs. */
  readonly id: string;
  /** What the token is called; null: a JWT. */
  readonly name: string | null;
  /** null: never. */
  readonly expiresAt: Date | null;
  readonly scopes: ReadonlySet<Scope>;
  /** null: an administrator, who manages projects and tokens and opens no project. */
  readonly project: ProjectRow | null;
}

interface NewToken {
  /** Shown once. */
  token: string;
  details: TokenRow;
}

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

export class Tokens {
  private readonly good = new LRUCache<string, Good>({ max: REMEMBERED });
  /** Apart from the good ones, so that a flood of wrong tokens does not push those out. */
  private readonly answers = new LRUCache<string, Answer<Caller>>({ max: REMEMBERED });
  private changes: Answer<string> | null = null;
  /** As of that number of changes. */
  private endedTokens: { changes: string | null; ids: ReadonlySet<string> } = { changes: null, ids: new Set() };
  private readonly touched = new Map<string, number>();

  constructor(
    private readonly control: ControlDatabase,
    private readonly audit: Audit,
  ) {}

  /**
   * @param projectId null for an admin token, which has no scopes
   * @throws EngineError not_found if the project was deleted meanwhile; database_unavailable; outcome_unknown
   */
  async create(
    projectId: string | null,
    options: { name?: string; scopes?: readonly Scope[]; expiresAt?: Date | null } = {},
    by: Origin = BY_ITSELF,
  ): Promise<NewToken> {
    const token = generateToken();
    const details: TokenRow = {
      id: randomUUID(),
      projectId,
      name: options.name ?? (projectId === null ? 'admin' : 'default'),
      scopes: projectId === null ? [] : [...(options.scopes ?? SCOPES)],
      createdAt: new Date(),
      expiresAt: options.expiresAt ?? null,
      revokedAt: null,
      lastUsedAt: null,
    };
    const entry = this.audit.entryOfChange(by, { operation: 'token.create', object: details.id });
    if (!(await this.control.insertToken({ ...details, sha256: sha256(token) }, entry))) {
      throw new EngineError('not_found', 'The project of this token was deleted');
    }
    return { token, details };
  }

  list(projectId: string | null): Promise<TokenRow[]> {
    return this.control.tokens(projectId);
  }

  /**
   * @param scope.projectId only a token of that project; undefined: any
   * @param scope.now requests that are running with it end, too
   * @throws EngineError not_found, database_unavailable, outcome_unknown
   */
  async revoke(
    id: string,
    { projectId, now = false }: { projectId?: string | null; now?: boolean } = {},
    by: Origin = BY_ITSELF,
  ): Promise<TokenRow> {
    const entry = this.audit.entryOfChange(by, { operation: 'token.revoke', object: id.toLowerCase() });
    const revoked = isUuid(id) ? await this.control.revokeToken(id, projectId, now, entry) : null;
    if (revoked === null) throw new EngineError('not_found', 'There is no token with this id');
    return revoked;
  }

  /**
   * @param beforeQuestion called before the database is asked for a token that was not good lately; may reject it by throwing.
   * What it returns is called when the database has answered
   * @throws EngineError unauthorized, token_expired, database_unavailable
   */
  async authenticate(token: string, beforeQuestion: () => () => void): Promise<Caller> {
    const hash = sha256(token);
    const good = this.good.get(hash);
    if (good !== undefined && !isOver(good.token) && (await this.changesNow()) === good.changes) {
      this.touch(good.token.id);
      return good.caller;
    }
    const answer = this.answers.get(hash);
    if (answer !== undefined && isFresh(answer)) return answer.value;
    if (!hasChecksum(token)) throw unauthorized();
    const answered = good === undefined ? beforeQuestion() : () => {};
    return this.ask(hash).finally(answered);
  }

  /** Ids of the tokens that were revoked lately and whose requests are to end. @throws EngineError database_unavailable */
  async ended(): Promise<ReadonlySet<string>> {
    const changes = await this.changesNow();
    if (this.endedTokens.changes !== changes) {
      this.endedTokens = { changes, ids: new Set(await this.control.endedTokens()) };
    }
    return this.endedTokens.ids;
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

function generateToken(): string {
  const body = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return `cdp_${body}${checksum(body)}`;
}

/** Refuses mistyped tokens without asking the database. */
function hasChecksum(token: string): boolean {
  const match = FORMAT.exec(token);
  return match !== null && checksum(match[1] ?? '') === match[2];
}

const checksum = (body: string): string => base62(BigInt(crc32(body)), 6);

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest /= 62n) text = (ALPHABET[Number(rest % 62n)] ?? '') + text;
  return text;
}

const sha256 = (token: string): string => digest('sha256', token, 'hex');

/** By the clock. */
export const isOver = ({ expiresAt }: Pick<Caller, 'expiresAt'>): boolean =>
  expiresAt !== null && expiresAt.getTime() <= Date.now();

const unauthorized = () => new EngineError('unauthorized', 'The bearer token is not valid');

const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
