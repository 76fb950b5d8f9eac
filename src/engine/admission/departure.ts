/**
 * Whether whoever asked for something has left. An AbortSignal is one; for each request it would cost more than most of
 * what is done for it, so that a request has one of these.
 */
export interface Departure {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void, options?: { once: true }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** The departure of a client, told by whoever sees it go. */
export class ClientDeparture implements Departure {
  aborted = false;
  private listeners: (() => void)[] | null = null;

  addEventListener(_type: 'abort', listener: () => void): void {
    if (!this.aborted) (this.listeners ??= []).push(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.listeners !== null) this.listeners = this.listeners.filter((other) => other !== listener);
  }

  /** It has left. Everybody who listens is told, once. */
  happen(): void {
    this.aborted = true;
    const listeners = this.listeners ?? [];
    this.listeners = null;
    for (const listener of listeners) listener();
  }
}

/** Of work that nobody can leave. */
export const STAYS: Departure = new ClientDeparture();
