/**
 * Bearer tokens (contract section 2): `cdp_`, 43 base62 characters of 32 random bytes, 6 of checksum. Only their SHA-256
 * is stored. What a token may do is looked up at most {@link FRESH_MS} after it changed, on every instance.
 */
import { hash as digest, randomBytes, randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { LruMap } from 'toad-cache';
import { EngineError } from '../../contract/errors.js';
import { SCOPES, type Scope } from '../../contract/names.js';
import type { ControlDatabase } from '../../tenancy/control.js';
import type { ProjectRow, TokenRow } from '../../tenancy/control-rows.js';
import { type Audit, BY_ITSELF, type Origin } from '../audit/audit.js';

/**
 * How long an answer of the control database may be used again; then it is asked whether anything has changed, for all
 * tokens together. Revocation holds within one second (contract 2).
 */
const FRESH_MS = 750;

/** Tokens that were looked up lately, wrong ones too; a flood of wrong ones must not fill memory. */
const REMEMBERED = 10_000;

/** A token's last use is written at most this often. */
const TOUCH_EVERY_MS = 60_000;

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const FORMAT = /^cdp_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

/** Whom a request speaks for. */
export interface Caller {
  /** Of the token, or the subject of a JWT; for logs. */
  readonly id: string;
  /** What the token is called; null: a JWT. */
  readonly name: string | null;
  readonly scopes: ReadonlySet<Scope>;
  /** null: an administrator, who manages projects and tokens and opens no project. */
  readonly project: ProjectRow | null;
}

interface NewToken {
  /** Shown once. */
  token: string;
  details: TokenRow;
}

/** What the control database said of a token. */
interface Known {
  readonly caller: Promise<Caller>;
  /** When it was asked. */
  readonly at: number;
  /** Of a good token, once the answer is there. It holds as long as there are no more changes than before it. */
  good: { readonly token: TokenRow; readonly changes: string } | null;
}

/** Whether anything has changed, and when that was asked for. */
interface Changes {
  readonly count: Promise<string>;
  readonly at: number;
}

export class Tokens {
  private readonly known = new Map<string, Known>();
  private readonly fresh = new FreshCallers();
  private changes: Changes | null = null;
  /** Tokens that were good when they were last looked up; wrong ones do not push them out. */
  private readonly good = new LruMap<true>(REMEMBERED);
  private readonly touched = new Map<string, number>();

  constructor(
    private readonly control: ControlDatabase,
    private readonly audit: Audit,
  ) {}

  /**
   * @param projectId null for an admin token, which has no scopes
   * @throws EngineError not_found where the project was deleted in the meantime; database_unavailable; outcome_unknown where it may be there
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
    if (!(await this.control.insertToken({ ...details, sha256: Buffer.from(sha256(token), 'hex') }, entry))) {
      throw new EngineError('not_found', 'The project of the token was deleted');
    }
    return { token, details };
  }

  list(projectId: string | null): Promise<TokenRow[]> {
    return this.control.tokens(projectId);
  }

  /** @throws EngineError not_found, database_unavailable, outcome_unknown */
  async revoke(id: string, projectId?: string | null, by: Origin = BY_ITSELF): Promise<TokenRow> {
    const entry = this.audit.entryOfChange(by, { operation: 'token.revoke', object: id.toLowerCase() });
    const revoked = isUuid(id) ? await this.control.revokeToken(id, projectId, entry) : null;
    if (revoked === null) throw new EngineError('not_found', 'There is no such token');
    return revoked;
  }

  /** Whom a good token speaks for that came a moment ago; undefined: it has to be looked at. */
  callerOf(token: string): Caller | undefined {
    return this.fresh.get(token, Date.now());
  }

  /**
   * @param beforeQuestion called before the database is asked for a token that was not good lately; it may refuse by
   * throwing, and is told of the answer by a call of what it returns
   * @throws EngineError unauthorized, token_expired, database_unavailable
   */
  async authenticate(token: string, beforeQuestion: () => () => void): Promise<Caller> {
    if (!hasChecksum(token)) throw unauthorized();
    const { caller, at } = await this.answerOn(sha256(token), Date.now(), beforeQuestion);
    this.fresh.add(token, await caller, at);
    return caller;
  }

  /** An answer that was given, or was seen to hold still, within the last {@link FRESH_MS}: at the time `at`. */
  private async answerOn(
    hash: string,
    now: number,
    beforeQuestion: () => () => void,
  ): Promise<Pick<Known, 'caller' | 'at'>> {
    const remembered = this.known.get(hash);
    if (remembered !== undefined && now - remembered.at < FRESH_MS) return remembered;
    if (this.good.get(hash) === undefined) {
      const answered = beforeQuestion();
      const { caller, at } = this.ask(hash, now);
      return { caller: caller.finally(answered), at };
    }
    if (remembered === undefined) return this.ask(hash, now);
    const changes = this.changesUntil(now);
    if (!(await this.stillHolds(remembered, changes))) return this.ask(hash, now);
    return { caller: remembered.caller, at: changes.at };
  }

  private async stillHolds({ good }: Known, { count }: Changes): Promise<boolean> {
    if (good === null || isOver(good.token) || (await count) !== good.changes) return false;
    this.touch(good.token.id);
    return true;
  }

  /** The number of changes as it was at some moment of the last {@link FRESH_MS}. */
  private changesUntil(now: number): Changes {
    if (this.changes !== null && now - this.changes.at < FRESH_MS) return this.changes;
    const changes = { count: this.control.changes(), at: now };
    this.changes = changes;
    // A fault of the database is not an answer.
    changes.count.catch(() => {
      if (this.changes === changes) this.changes = null;
    });
    return changes;
  }

  private ask(hash: string, at: number): Known {
    const caller = this.changesUntil(at).count.then((changes) =>
      this.lookUp(hash, (token) => (known.good = { token, changes })),
    );
    const known: Known = { caller, at, good: null };
    this.remember(hash, known);
    return known;
  }

  /** @param onGood told of the token, where it is good */
  private async lookUp(hash: string, onGood: (token: TokenRow) => void): Promise<Caller> {
    const found = await this.control.tokenByHash(Buffer.from(hash, 'hex'));
    if (found === null || found.token.revokedAt !== null) throw unauthorized();
    const { token, project } = found;
    if (isOver(token)) throw new EngineError('token_expired', `The token expired at ${token.expiresAt?.toISOString()}`);
    onGood(token);
    this.touch(token.id);
    const scopes = SCOPES.filter((scope) => token.scopes.includes(scope));
    return { id: token.id, name: token.name, scopes: new Set(scopes), project };
  }

  private remember(hash: string, known: Known): void {
    this.known.delete(hash);
    this.known.set(hash, known);
    // Refusals are remembered too; a fault of the database is not an answer.
    known.caller.then(
      () => this.good.set(hash, true),
      (error: unknown) => {
        if (error instanceof EngineError && error.status === 401) this.good.delete(hash);
        else this.known.delete(hash);
      },
    );
    if (this.known.size > REMEMBERED) for (const oldest of this.known.keys()) return void this.known.delete(oldest);
  }

  private touch(id: string): void {
    const now = Date.now();
    if (now - (this.touched.get(id) ?? 0) < TOUCH_EVERY_MS) return;
    this.touched.set(id, now);
    // The last use is for the operator's eyes; failing to note it must not fail the request.
    this.control.touchTokens([id]).catch(() => this.touched.delete(id));
  }
}

/**
 * Good tokens of the last moment as they were sent, so that a busy one is not hashed for each request. Nothing is kept
 * here for longer than an answer of the control database holds: then all are forgotten together.
 */
class FreshCallers {
  private readonly callers = new Map<string, { readonly caller: Caller; readonly at: number }>();
  private since = 0;

  /** @param at when its answer was asked for */
  add(token: string, caller: Caller, at: number): void {
    if (this.callers.size < REMEMBERED) this.callers.set(token, { caller, at });
  }

  get(token: string, now: number): Caller | undefined {
    if (now - this.since >= FRESH_MS) {
      this.callers.clear();
      this.since = now;
    }
    const known = this.callers.get(token);
    return known !== undefined && now - known.at < FRESH_MS ? known.caller : undefined;
  }
}

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

const isOver = ({ expiresAt }: TokenRow): boolean => expiresAt !== null && expiresAt.getTime() <= Date.now();

const unauthorized = () => new EngineError('unauthorized', 'The bearer token is not valid');

const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
