/**
 * Ends sessions from outside: if the token is no longer valid, the time is up, or the project is over its quota. No
 * setting that a statement can change matters: pg_stat_activity shows what backends do.
 */
import { EngineError } from '../../contract/errors.js';
import { SQLSTATE } from '../../pg/index.js';
import { runPeriodically } from '../../tasks.js';
import { allDone } from '../../promises.js';
import type { Log } from '../../log.js';
import type { Activity } from '../../tenancy/connections/backend-control.js';
import type { Authenticator } from '../access/authenticate.js';
import { isExpired } from '../access/tokens.js';
import type { Quotas } from '../../db/quota.js';
import type { ClientSession } from './client-session.js';
import { SessionError, terminated } from './session-error.js';

export interface SessionTimes {
  /** How long a transaction, or a statement outside one, may take. */
  readonly transactionMs: number;
  /** How long a transaction may wait for its next statement. */
  readonly idleTransactionMs: number;
  /** How long a session may be idle. */
  readonly idleMs: number;
}

/** Results of authentication are at most 750 ms old: together, less than a second. */
const TOKEN_EVERY_MS = 200;

const ACTIVITY_EVERY_MS = 1_000;

/** How long a canceled statement may take to end. */
const CANCEL_MS = 5_000;

export class SessionLimitEnforcer {
  private readonly stops: readonly (() => void)[];
  private readonly asking = new Set<ClientSession>();

  constructor(
    private readonly sessions: ReadonlySet<ClientSession>,
    private readonly authenticator: Authenticator,
    private readonly quotas: Quotas,
    private readonly times: SessionTimes,
    log: Log,
  ) {
    this.stops = [
      runPeriodically(TOKEN_EVERY_MS, 'watch_session_tokens', () => this.checkTokens(), log),
      runPeriodically(ACTIVITY_EVERY_MS, 'watch_session_times', () => this.checkActivity(), log),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
  }

  private checkTokens(): void {
    for (const session of this.sessions) {
      if (this.asking.has(session)) continue;
      this.asking.add(session);
      void this.checkToken(session).finally(() => this.asking.delete(session));
    }
  }

  private async checkToken(session: ClientSession): Promise<void> {
    const { token, project, caller } = session.owner;
    // This works even if the control database is unavailable.
    if (isExpired(caller)) return session.end(expired());
    try {
      const { project: now } = await this.authenticator.authenticateAgain(token);
      if (now?.id !== project.id) session.end(terminated('the project was deleted', 'unauthorized'));
      else if (now.status !== 'active') {
        session.end(terminated('the CDP is inactive for this project', 'cdp_inactive'));
      }
    } catch (error) {
      // If the control database is unavailable, the next check asks again.
      if (!(error instanceof EngineError)) return;
      if (error.code === 'token_expired') session.end(expired());
      else if (error.code === 'unauthorized') session.end(terminated('the token was revoked', 'unauthorized'));
    }
  }

  private async checkActivity(): Promise<void> {
    const looks = [...groupedByServer(this.sessions)].map(async ([backendControl, sessions]) => {
      const before = sessions.map(({ endedTransactions }) => endedTransactions);
      const activities = await backendControl.activity(sessions.map(({ backend }) => backend));
      for (const [i, session] of sessions.entries()) {
        this.check(session, activities.get(session.backend.processId), session.endedTransactions === before[i]);
      }
    });
    await allDone(looks);
  }

  /**
   * @param activity undefined: the backend is gone, as its connection will show
   * @param isCurrent the transaction or statement that Postgres was asked about has not ended meanwhile
   */
  private check(session: ClientSession, activity: Activity | undefined, isCurrent: boolean): void {
    if (activity === undefined || session.hasEnded) return;
    const { state, stateSeconds, transactionSeconds } = activity;
    const { transactionMs, idleTransactionMs, idleMs } = this.times;
    const stateMs = stateSeconds * 1_000;
    const hasSent = session.received > session.lastBytes;
    session.lastBytes = session.received;
    if (!session.owner.isReadOnly && (state !== 'idle' || hasSent)) void this.checkQuota(session);
    if (state === 'idle') {
      session.canceledAt = null;
      if (stateMs > idleMs) session.end(terminated(`it was idle for ${idleMs} ms`, 'query_timeout'));
      return;
    }
    if (state === 'active') session.watchProcessors();
    // A COMMIT within a DO begins another transaction in the same statement.
    const atWorkMs = Math.max((transactionSeconds ?? 0) * 1_000, state === 'active' ? stateMs : 0);
    if (state !== 'active' && stateMs > idleTransactionMs) {
      session.end(terminated(`its transaction was idle for ${idleTransactionMs} ms`, 'query_timeout'));
    } else if (atWorkMs > transactionMs && isCurrent) this.stopTransaction(session, state === 'active');
  }

  /** Cancels the statement first, which the client survives; then ends the session. */
  private stopTransaction(session: ClientSession, isActive: boolean): void {
    const now = performance.now();
    if (isActive && session.canceledAt === null) {
      session.canceledAt = now;
      void session.cancel();
    } else if (now - (session.canceledAt ?? -Infinity) > CANCEL_MS) {
      session.end(terminated(`its transaction ran longer than ${this.times.transactionMs} ms`, 'query_timeout'));
    }
  }

  /** Never rejects: if the size cannot be measured now, the next check tries again. */
  private async checkQuota(session: ClientSession): Promise<void> {
    try {
      const over = await this.quotas.overQuota(session.owner.project);
      if (over !== null) session.end(overQuota(over.error));
    } catch {
      return;
    }
  }
}

const expired = () => terminated('the token has expired', 'token_expired');

export const overQuota = ({ code, message }: EngineError): SessionError =>
  new SessionError(SQLSTATE.DISK_FULL, message, code, 'Free space with POST /api/cdp/sql, or connect as reader.');

function groupedByServer(sessions: ReadonlySet<ClientSession>): Map<ClientSession['backendControl'], ClientSession[]> {
  const servers = new Map<ClientSession['backendControl'], ClientSession[]>();
  for (const session of sessions) {
    const others = servers.get(session.backendControl);
    if (others === undefined) servers.set(session.backendControl, [session]);
    else others.push(session);
  }
  return servers;
}
