/**
 * The requests of this instance that use a project's database or wait for it. An operator can list and cancel them.
 * If a token is revoked together with its requests, on any instance, those requests end within a second.
 */
import { EngineError } from '../contract/errors.js';
import type { Authenticator } from './access/authenticate.js';
import type { Caller } from './access/tokens.js';
import { PeriodicChecks, type Checkable } from '../db/periodic-checks.js';

/** How often to check for such revocations; authentication shares the result. */
const REVOCATIONS_EVERY_MS = 200;

export interface LiveRequest {
  /** The caller may have chosen it. */
  readonly id: string;
  readonly caller: Caller;
  /** Its word in the audit log. */
  readonly operation: string;
  readonly address: string;
  /** On the clock of `performance.now()`. */
  readonly startedAt: number;
  /** Names the request to the client that may cancel it; null: its client cannot. Known once the body has been read. */
  clientKey(): string | null;
  /** Ends the work, which fails with the reason. */
  abort(reason: EngineError): void;
}

interface WatchedRequest extends Checkable {
  readonly request: LiveRequest;
}

export class LiveRequests {
  private readonly watched = new PeriodicChecks<WatchedRequest>();
  private endedTokenIds: ReadonlySet<string> = new Set();
  private nextCheck = 0;

  constructor(private readonly authenticator: Authenticator) {}

  /** Watches a request until the returned function is called. */
  watch(request: LiveRequest): () => void {
    const entry: WatchedRequest = {
      request,
      check: (now) => {
        if (now >= this.nextCheck) this.findRevocations(now);
        if (this.endedTokenIds.has(request.caller.id))
          request.abort(new EngineError('unauthorized', 'The token was revoked'));
      },
    };
    this.watched.add(entry);
    return () => this.watched.delete(entry);
  }

  /** The oldest first. */
  list(): LiveRequest[] {
    const requests = this.watched.all().map(({ request }) => request);
    return requests.sort((a, b) => a.startedAt - b.startedAt);
  }

  /**
   * Ends the requests of a project that have this id.
   * @returns how many there were
   */
  cancel(projectName: string, id: string): number {
    const matching = this.list().filter((request) => request.id === id && request.caller.project?.name === projectName);
    for (const request of matching) request.abort(new EngineError('query_timeout', 'An operator canceled the request'));
    return matching.length;
  }

  /** Ends the request to which its client gave this key. If several fit, it is unknown which one is meant: none ends. */
  cancelByClient(key: string): void {
    const [one, ...others] = this.list().filter((request) => request.clientKey() === key);
    if (others.length === 0) one?.abort(new EngineError('query_timeout', 'The client canceled the request'));
  }

  private findRevocations(now: number): void {
    this.nextCheck = now + REVOCATIONS_EVERY_MS;
    this.authenticator.endedTokenIds().then(
      (ids) => (this.endedTokenIds = ids),
      // Asked again with the next check.
      () => {},
    );
  }
}
