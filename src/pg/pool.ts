/**
 * A few sessions of one role for short queries. They are lent one at a time, opened on demand, and closed when idle.
 */
import { ResponseTimeout, ConnectionLost } from './errors.js';
import type { PipelineOptions, Result, Row, Session, Step } from './session.js';
import type { Statement } from './sql-tag.js';

interface PoolOptions {
  /** Maximum number of sessions. */
  readonly max: number;
  /** Closes a session that has been idle for this long. */
  readonly idleMs: number;
  /** How long to wait for a session if all are in use. */
  readonly waitMs: number;
}

interface Waiting {
  readonly resolve: (session: Session) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

export class Pool {
  /** The session used last is lent first. */
  private readonly idle: { readonly session: Session; readonly timer: NodeJS.Timeout }[] = [];
  private readonly waiting: Waiting[] = [];
  /** The number of sessions that are open or being opened. */
  private count = 0;
  private closing = false;

  constructor(
    private readonly connect: () => Promise<Session>,
    private readonly options: PoolOptions,
  ) {}

  /**
   * Lends a session for the duration of `work`. If it is in a transaction afterward, it is closed.
   * @throws what `connect` throws, ConnectionLost if none becomes free in time; what `work` throws
   */
  async use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.take();
    try {
      return await work(session);
    } catch (error) {
      // The idle ones are probably dead too, and each would cost a query its whole time limit.
      if (error instanceof ResponseTimeout) for (const other of this.takeIdle()) other.destroy(error);
      throw error;
    } finally {
      this.release(session);
    }
  }

  /**
   * Runs a statement and returns its rows.
   * @throws PostgresError, ConnectionLost
   */
  query(statement: Statement, options?: PipelineOptions): Promise<Row[]> {
    return this.use((session) => session.query(statement, options));
  }

  /** Runs a statement and returns its first row; empty if there is none. */
  row(statement: Statement, options?: PipelineOptions): Promise<Row> {
    return this.use((session) => session.row(statement, options));
  }

  /**
   * Runs several steps in one round trip.
   * @throws PostgresError, ConnectionLost
   */
  run(steps: readonly Step[], options?: PipelineOptions): Promise<Result[]> {
    return this.use((session) => session.run(steps, options));
  }

  /** Closes idle sessions now, and lent ones when they come back. @returns when the idle ones are closed */
  async close(): Promise<void> {
    this.closing = true;
    for (let next = this.nextWaiting(); next !== undefined; next = this.nextWaiting()) {
      next.reject(new ConnectionLost('The pool was closed'));
    }
    await Promise.all(this.takeIdle().map((session) => session.close()));
  }

  private take(): Promise<Session> {
    if (this.closing) return Promise.reject(new ConnectionLost('The pool was closed'));
    const entry = this.idle.pop();
    if (entry !== undefined) {
      clearTimeout(entry.timer);
      return Promise.resolve(entry.session);
    }
    if (this.count < this.options.max) return this.open();
    return new Promise((resolve, reject) => {
      const late = () => {
        this.waiting.splice(this.waiting.indexOf(entry), 1);
        reject(new ConnectionLost('No connection to Postgres was free in time'));
      };
      const entry = { resolve, reject, timer: setTimeout(late, this.options.waitMs) };
      this.waiting.push(entry);
    });
  }

  /** The caller that has waited longest. From here on, it gets a session, or the error of a login. */
  private nextWaiting(): Waiting | undefined {
    const next = this.waiting.shift();
    clearTimeout(next?.timer);
    return next;
  }

  private async open(): Promise<Session> {
    this.count++;
    try {
      const session = await this.connect();
      session.onClose(() => this.closed(session));
      if (session.closed) throw new ConnectionLost('The connection to Postgres was lost');
      return session;
    } catch (error) {
      this.freed();
      throw error;
    }
  }

  private release(session: Session): void {
    if (session.closed) return;
    if (this.closing || session.inTransaction) return void session.close();
    const next = this.nextWaiting();
    if (next !== undefined) return next.resolve(session);
    const timer = setTimeout(() => void session.close(), this.options.idleMs);
    this.idle.push({ session, timer });
  }

  private takeIdle(): Session[] {
    return this.idle.splice(0).map(({ session, timer }) => {
      clearTimeout(timer);
      return session;
    });
  }

  private closed(session: Session): void {
    const at = this.idle.findIndex((entry) => entry.session === session);
    for (const { timer } of at < 0 ? [] : this.idle.splice(at, 1)) clearTimeout(timer);
    this.freed();
  }

  /** A waiting caller opens a session instead. */
  private freed(): void {
    this.count--;
    const next = this.nextWaiting();
    if (next !== undefined) this.open().then(next.resolve, next.reject);
  }
}
