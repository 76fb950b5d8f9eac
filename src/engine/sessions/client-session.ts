/** A client's session at the Postgres port: its dedicated connection in a role of the project, and how it ends. */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancel, type LoggedIn } from '../../pg/index.js';
import { TERMINATE } from '../../pg/protocol.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { type Backend, GRACE_MS, type Watchdog } from '../../tenancy/connections/watchdog.js';
import type { Origin } from '../audit/audit.js';
import type { Caller } from '../access/tokens.js';
import type { SessionError } from './session-error.js';

export const SESSION_ROLES = ['writer', 'reader'] as const;
export type SessionRole = (typeof SESSION_ROLES)[number];

export interface SessionOwner {
  readonly token: string;
  readonly address: string;
  readonly caller: Caller;
  readonly project: ProjectRow;
  readonly role: SessionRole;
  readonly origin: Origin;
}

/** An idle backend is gone after this time. */
const IDLE_MS = 50;

export class ClientSession {
  /** Bytes from the client, and from Postgres. */
  received = 0;
  sent = 0;
  /** Bytes from the client at the last check of the quota. */
  seen = 0;
  /** The error for the client at the end; null: it disconnected itself. */
  ending: SessionError | null = null;
  /** When a statement was last canceled because its time was up. The session ends if the statement continues. */
  canceledAt: number | null = null;
  private onEnd: ((reason: SessionError) => void) | null = null;
  private canceling: Promise<void> | null = null;
  private nextCancel: Promise<void> | null = null;
  private releasing: Promise<void> | null = null;
  private lowerPriority: (() => Promise<void>) | undefined;

  constructor(
    readonly owner: SessionOwner,
    readonly loggedIn: LoggedIn,
    readonly backend: Backend,
    readonly watchdog: Watchdog,
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
   * Cancels the running statement. One cancel request at a time, since each takes a connection to Postgres; further
   * calls meanwhile become one more request, since another statement may run by then.
   */
  cancel(): Promise<void> {
    if (this.canceling === null) return (this.canceling = cancel(this.loggedIn).finally(() => (this.canceling = null)));
    return (this.nextCancel ??= this.canceling.then(() => {
      this.nextCancel = null;
      return this.cancel();
    }));
  }

  /** Ends the session from outside, at any time. */
  end(reason: SessionError): void {
    if (this.ending !== null || this.releasing !== null) return;
    this.ending = reason;
    this.onEnd?.(reason);
  }

  /** Lowers the priority of the backend if it uses much processor time. */
  watchProcessors(): void {
    this.lowerPriority ??= this.watchdog.niceness?.watch(this.backend);
    void this.lowerPriority?.().catch(() => {});
  }

  /**
   * Ends the backend after the client has disconnected, or has to. @returns when the backend is gone, or is out of
   * reach
   */
  release(): Promise<void> {
    return (this.releasing ??= this.endBackend().finally(() => this.over(this)));
  }

  private async endBackend(): Promise<void> {
    const { socket } = this.loggedIn;
    if (socket.closed) return;
    const closed = new Promise<void>((resolve) => socket.once('close', resolve));
    this.loggedIn.read(() => {});
    socket.resume();
    socket.end(TERMINATE);
    const isLate = (ms: number) => Promise.race([closed, sleep(ms, true, { ref: false })]);
    if (!(await isLate(IDLE_MS))) return;
    // A busy backend does not read Terminate, and after a cancel it would run the client's next statement.
    if (this.ending === null) {
      void this.cancel();
      if (!(await isLate(GRACE_MS))) return;
    }
    const gone = await this.watchdog.terminate(this.backend).catch(() => true);
    socket.destroy();
    if (!gone) await this.watchdog.gone(this.backend).catch(() => {});
  }
}
