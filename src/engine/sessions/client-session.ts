/** A client's session at the Postgres port: its dedicated connection in a role of the project, and how it ends. */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancel, CANCEL_MS, type LoggedIn, type PostgresError } from '../../pg/index.js';
import { TERMINATE } from '../../pg/protocol.js';
import { type Backend, GRACE_MS, type BackendControl } from '../../tenancy/connections/backend-control.js';
import { noUsage } from '../../contract/usage.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Caller } from '../access/tokens.js';
import type { AuditOrigin } from '../../contract/audit.js';
import { type SessionError, terminated } from './session-error.js';

export interface SessionOwner {
  readonly token: string;
  readonly address: string;
  readonly caller: Caller;
  readonly project: ProjectRow;
  /** The user. */
  readonly user: string;
  /** The role as which it acts, one that the project has made; null: its writer or reader. */
  readonly role: string | null;
  /** Its transactions are READ ONLY. */
  readonly isReadOnly: boolean;
  readonly origin: AuditOrigin;
}

/** An idle backend is gone after this time. */
const IDLE_MS = 50;

export class ClientSession {
  /** Bytes from the client, and from Postgres. */
  received = 0;
  sent = 0;
  /** What was used, and is not yet counted for the project. */
  used = { postgres: noUsage(), copy: noUsage() };
  /** Bytes from the client at the last check of the quota. */
  lastBytes = 0;
  /** The error for the client at the end; null: it disconnected itself. */
  ending: SessionError | null = null;
  /** When a statement was last canceled because its time was up. The session ends if the statement continues. */
  canceledAt: number | null = null;
  /** The number of transactions and lone statements that have ended, as Postgres reports to the client. */
  endedTransactions = 0;
  /** What goes to Postgres, in order. */
  readonly order = new CancelSequencer(() => this.requestCancel());
  private onEnd: ((reason: SessionError) => void) | null = null;
  private releasing: Promise<void> | null = null;
  private lowerPriority: (() => Promise<void>) | undefined;

  constructor(
    readonly owner: SessionOwner,
    readonly loggedIn: LoggedIn,
    readonly backend: Backend,
    readonly backendControl: BackendControl,
    /** Called with each error that Postgres reports to the client. */
    readonly noteError: (error: PostgresError) => void,
    private readonly over: (session: ClientSession) => void,
  ) {}

  get hasEnded(): boolean {
    return this.releasing !== null;
  }

  /**
   * Sets a listener, which is called once if the session is ended from outside, and which then calls {@link release}.
   */
  listen(onEnd: (reason: SessionError) => void): void {
    this.onEnd = onEnd;
    if (this.ending !== null) onEnd(this.ending);
  }

  /**
   * Cancels the running statement, and none that the client sends later.
   * @returns when the request can have no more effect, or the session ends
   */
  cancel(): Promise<void> {
    return this.order.cancel();
  }

  /** Ends the session from outside, at any time. */
  end(reason: SessionError): void {
    if (this.ending !== null || this.releasing !== null) return;
    this.ending = reason;
    this.onEnd?.(reason);
  }

  /** Lowers the priority of the backend if it uses much processor time. */
  watchProcessors(): void {
    this.lowerPriority ??= this.backendControl.niceness?.watch(this.backend);
    // Without the priority, the session still runs.
    void this.lowerPriority?.().catch(() => {});
  }

  /**
   * Ends the backend after the client has disconnected, or has to. @returns when the backend is gone, or is out of
   * reach
   */
  release(): Promise<void> {
    return (this.releasing ??= this.endBackend().finally(() => this.over(this)));
  }

  private async requestCancel(): Promise<void> {
    if (this.ending !== null || (await cancel(this.loggedIn))) return;
    this.end(terminated(`Postgres did not answer its cancel request within ${CANCEL_MS} ms`, 'database_unavailable'));
  }

  private async endBackend(): Promise<void> {
    const { socket } = this.loggedIn;
    if (socket.closed) return;
    const closed = new Promise<void>((resolve) => socket.once('close', resolve));
    this.loggedIn.read(() => {});
    socket.resume();
    this.order.run(() => socket.end(TERMINATE));
    const isLate = (ms: number) => Promise.race([closed, sleep(ms, true, { ref: false })]);
    if (!(await isLate(IDLE_MS))) return;
    // A busy backend does not read Terminate, and after a cancel it would run the client's next statement.
    if (this.ending === null) {
      void this.cancel();
      if (!(await isLate(GRACE_MS))) return;
    }
    // A server that does not answer has no backend left to wait for.
    const isGone = await this.backendControl.terminate(this.backend).catch(() => true);
    socket.destroy();
    // A server that does not answer has no backend left.
    if (!isGone) await this.backendControl.untilGone(this.backend).catch(() => {});
  }
}

/**
 * The order of a session's cancel requests and its client's bytes. A cancel request reaches Postgres over a connection
 * of its own, so that bytes sent later could overtake it: it would end a statement that it was not meant for.
 */
export class CancelSequencer {
  /** The end of all that was asked for; null: nothing is under way. */
  private last: Promise<void> | null = null;
  /** A request that has not begun, and after which nothing else was asked for. */
  private next: Promise<void> | null = null;

  /** @param request sends a cancel request @returns when it can have no more effect; never rejects */
  constructor(private readonly request: () => Promise<void>) {}

  /** No cancel request is under way. */
  get isIdle(): boolean {
    return this.last === null;
  }

  /**
   * Cancels the running statement, after what was asked for before. One request at a time, since each takes a
   * connection to Postgres; further calls meanwhile become one more request, since another statement may run by then.
   * @returns when the request can have no more effect
   */
  cancel(): Promise<void> {
    if (this.next !== null) return this.next;
    const next = this.append(() => {
      if (this.next === next) this.next = null;
      return this.request();
    });
    return (this.next = next);
  }

  /** Calls `work`, which must not throw, after all cancel requests so far: at once, if there are none. */
  run(work: () => void): void {
    if (this.last === null) return work();
    this.next = null;
    void this.append(work);
  }

  private append(work: () => Promise<void> | void): Promise<void> {
    const before = this.last ?? Promise.resolve();
    const last = before.then(work).finally(() => {
      if (this.last === last) this.last = null;
    });
    return (this.last = last);
  }
}
