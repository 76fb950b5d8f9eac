/**
 * One session of a client of the Postgres port: a connection of the project's own role, dedicated to it, and its end.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancel, type LoggedIn } from '../../pg/index.js';
import { TERMINATE } from '../../pg/protocol.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { type Backend, GRACE_MS, type Watchdog } from '../../tenancy/connections/watchdog.js';
import type { Origin } from '../audit/audit.js';
import type { Caller } from '../access/tokens.js';
import type { SessionError } from './session-error.js';

export const SESSION_ROLES = ['writer', 'reader'] as const;
export type SessionRole = (typeof SESSION_ROLES)[number];

/** Who has a session. */
export interface SessionOwner {
  readonly token: string;
  readonly address: string;
  readonly caller: Caller;
  readonly project: ProjectRow;
  readonly role: SessionRole;
  readonly origin: Origin;
}

/** An idle backend has gone after this time. */
const IDLE_MS = 50;

export class ClientSession {
  /** Bytes of the client, and of Postgres. */
  received = 0;
  sent = 0;
  /** Bytes of the client when its quota was last checked. */
  seen = 0;
  /** What the client is told at the end; null: it left by itself. */
  ending: SessionError | null = null;
  /** The last statement that was canceled since its time was up: the session ends if it goes on. */
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

  get isOver(): boolean {
    return this.releasing !== null;
  }

  /**
   * Called once if the session ends from outside, for the reader of the connection, which then calls {@link release}.
   */
  listen(onEnd: (reason: SessionError) => void): void {
    this.onEnd = onEnd;
    if (this.ending !== null) onEnd(this.ending);
  }

  /**
   * Cancels what runs. One request at a time, since each takes a connection to Postgres; those that come meanwhile
   * become one more, since another statement may run by then.
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

  /** A backend that takes much of the processors yields to others. */
  watchProcessors(): void {
    this.lowerPriority ??= this.watchdog.niceness?.watch(this.backend);
    void this.lowerPriority?.().catch(() => {});
  }

  /** The client has left, or was told to: ends the backend. @returns when it is gone, or cannot be asked about */
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
    // A backend that is at work reads no Terminate. After a cancellation it would run what else the client has sent.
    if (this.ending === null) {
      void this.cancel();
      if (!(await isLate(GRACE_MS))) return;
    }
    const gone = await this.watchdog.terminate(this.backend).catch(() => true);
    socket.destroy();
    if (!gone) await this.watchdog.gone(this.backend).catch(() => {});
  }
}
