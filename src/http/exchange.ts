/** One request and its answer, from the head of the one to the last byte of the other: what the edge remembers of it. */
import type { ErrorCode } from '../contract/errors.js';
import type { Caller } from '../engine/access/tokens.js';
import { ClientDeparture } from '../engine/admission/departure.js';
import type { JsonDocument } from '../engine/json/read-json.js';
import type { Project } from '../engine/project.js';
import type { Route } from './api/route.js';
import type { Place } from './gate/byte-room.js';
import type { RequestSpan } from './watch/request-tracer.js';

/** A row of the route tables, or as much of one as is known of what is served without a row. */
export type ServedRoute = Pick<Route, 'url' | 'audit'> & Partial<Route>;

/** In one object: Fastify would set each further property of a request by its name, which costs as much as all of this. */
export class Exchange {
  /** Milliseconds on the clock of `performance.now()`, as are the ends of the stages. */
  readonly started = performance.now();
  authenticated = this.started;
  parsed = this.started;
  /** null where the request is not traced. */
  span: RequestSpan | null = null;
  /** null: one that leaves no entry in the audit log, or none. */
  route: ServedRoute | null = null;
  caller: Caller | null = null;
  /** Of the operator whose command has come over the admin socket; null: the caller has a token. */
  account: string | null = null;
  /** The caller's project, the same for the whole request. */
  project: Project | null = null;
  /** The bytes of this request and its answer. */
  place: Place | null = null;
  document: JsonDocument | null = null;
  /** Of its refusal. */
  errorCode: ErrorCode | null = null;
  /** Stored or answered. */
  rows: number | null = null;
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

declare module 'fastify' {
  interface FastifyRequest {
    exchange: Exchange;
  }
}
