/**
 * The requests of this instance that use a project's database or wait for it. An operator can list and cancel them.
 * If a token is revoked together with its requests, on any instance, those requests end within a second.
 */
import type { AuditOperation } from '../../contract/audit.js';
import { EngineError } from '../../contract/errors.js';
import type { Authenticator } from '../access/authenticate.js';
import type { Caller } from '../access/tokens.js';
import { Sweeper, type Swept } from '../limits/sweeper.js';

/** How often to check for such revocations; authentication shares the result. */
const REVOCATIONS_EVERY_MS = 200;

export interface LiveRequest {
  /** The caller may have chosen it. */
  readonly id: string;
  readonly caller: Caller;
  readonly operation: AuditOperation;
  readonly address: string;
  /** On the clock of `performance.now()`. */
  readonly started: number;
  /** Ends the work, which fails with the reason. */
  abort(reason: EngineError): void;
}

interface WatchedRequest extends Swept {
  readonly request: LiveRequest;
}

export class LiveRequests {
  private readonly watched = new Sweeper<WatchedRequest>();
  private endedTokenIds: ReadonlySet<string> = new Set();
  private nextCheck = 0;

  constructor(private readonly authenticator: Authenticator) {}

  /** Watches a request until the returned function is called. */
  watch(request: LiveRequest): () => void {
    const watched: WatchedRequest = {
      request,
      check: (now) => {
        if (now >= this.nextCheck) this.findRevocations(now);
        if (this.endedTokenIds.has(request.caller.id))
          request.abort(new EngineError('unauthorized', 'The token was revoked'));
      },
    };
    this.watched.add(watched);
    return () => this.watched.delete(watched);
  }

  /** The oldest first. */
  list(): LiveRequest[] {
    const requests = this.watched.all().map(({ request }) => request);
    return requests.sort((a, b) => a.started - b.started);
  }

  /**
   * Ends the requests of a project that have this id.
   * @returns how many there were
   */
  cancel(project: string, id: string): number {
    const found = this.list().filter((request) => request.id === id && request.caller.project?.name === project);
    for (const request of found) request.abort(new EngineError('query_timeout', 'An operator canceled the request'));
    return found.length;
  }

  private findRevocations(now: number): void {
    this.nextCheck = now + REVOCATIONS_EVERY_MS;
    this.authenticator.endedTokenIds().then(
      (ids) => (this.endedTokenIds = ids),
      () => {},
    );
  }
}
