/** Who calls, whether they may, and room for what they send: all before a byte of the body has been looked at. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { TOO_MANY_WAIT, type WorkKind } from '../../engine/admission/admission.js';
import type { Engine } from '../../engine/engine.js';
import type { Caller } from '../../engine/access/tokens.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { type Access, authorize, identify } from './authenticate.js';
import { announcedBytes, type ByteRoom, type Place } from './byte-room.js';
import type { RateLimit } from './rate-limit.js';

/** What a route asks of whoever calls it: its rights, and what it does in Postgres; null: nothing. */
export interface Entry {
  readonly access: Access;
  readonly work: WorkKind | null;
}

export class Gate {
  constructor(
    private readonly engine: Engine,
    private readonly rateLimit: RateLimit | null,
    private readonly room: ByteRoom,
  ) {}

  /**
   * @returns undefined where the request passes at once, as most do: its token is known and there is room
   * @throws EngineError unauthorized, token_expired, rate_limited, insufficient_scope, cdp_inactive, overloaded
   */
  pass(request: FastifyRequest, reply: FastifyReply, entry: Entry): Promise<void> | undefined {
    const caller = identify(this.engine, request);
    if (caller instanceof Promise) return caller.then((known) => this.admit(known, request, reply, entry));
    return this.admit(caller, request, reply, entry);
  }

  private admit(
    caller: Caller,
    request: FastifyRequest,
    reply: FastifyReply,
    { access, work }: Entry,
  ): Promise<void> | undefined {
    request.exchange.caller = caller;
    const oneTooMany = this.rateLimit?.count(caller, reply) ?? null;
    authorize(caller, access);
    if (oneTooMany !== null) throw oneTooMany;
    const row = caller.project;
    // Nothing of its body is read then.
    if (row !== null && work !== null && this.engine.isFull(row, work)) throw TOO_MANY_WAIT;
    const place = row === null ? null : this.enter(row, request);
    if (place instanceof Promise) return place.then((entered) => settle(request, entered));
    settle(request, place);
    return undefined;
  }

  /** While the request waits, its bytes stay with the client. */
  private enter(row: ProjectRow, request: FastifyRequest): Place | Promise<Place> {
    const { exchange } = request;
    const project = this.engine.project(row, exchange.span?.trace);
    exchange.project = project;
    return this.room.enter(project.id, announcedBytes(request), project.patience, exchange.departure);
  }
}

function settle({ exchange }: FastifyRequest, place: Place | null): void {
  exchange.place = place;
  if (exchange.closed) place?.leave();
  exchange.authenticated = performance.now();
}
