/** One request and its answer, from the head of the one to the last byte of the other: what the edge remembers of it. */
import type { AuditOperation } from '../contract/audit.js';
import { ClientDeparture } from '../engine/admission/departure.js';
import type { RequestSpan } from './watch/tracing.js';

/** What log, metrics and audit log say of a route. */
export interface ServedRoute {
  /** Its pattern, never the path. */
  readonly url: string;
  /** Its word in the audit log. */
  readonly operation: AuditOperation;
  readonly successStatus: number | null;
}

export class Exchange {
  /** Milliseconds on the clock of `performance.now()`, as are the ends of the stages. */
  readonly started = performance.now();
  authenticated = this.started;
  parsed = this.started;
  /** null where the request is not traced. */
  span: RequestSpan | null = null;
  /** null: one that leaves no entry in the audit log, or none. */
  route: ServedRoute | null = null;
  /** Happens when the connection ends before the answer is out. */
  readonly departure = new ClientDeparture();
  /** The connection took the answer, or broke. */
  closed = false;
  /** The handler has come to its end, or the error exit has answered. */
  settled = false;
  /** The client left before its request was settled. */
  clientGone = false;
  /** Of the answer, once it is over; null where none was begun. */
  status: number | null = null;

  /** @param address of the client, which cannot be asked for once its connection has gone */
  constructor(readonly address: string) {}
}
