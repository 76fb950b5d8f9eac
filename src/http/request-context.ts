/**
 * One request from its head to the last byte of its answer: what the edge knows about it, and what it holds meanwhile.
 */
import type { JsonNode } from '../codec/index.js';
import type { EngineError, ErrorCode } from '../contract/errors.js';
import type { Caller } from '../engine/access/tokens.js';
import type { Project } from '../engine/project.js';
import type { Route, UndocumentedRoute } from './api/route.js';
import type { Reservation } from './memory-budget.js';
import type { RequestSpan } from './observability/request-tracer.js';

/** A row of the route tables, or the part of one that a route outside them has. */
export type ServedRoute = Pick<Route, 'url' | 'audit'> &
  Partial<Omit<Route, 'success'> & Pick<UndocumentedRoute, 'success'>>;

export class RequestContext {
  /** Milliseconds on the clock of `performance.now()`, like the ends of the stages. */
  readonly started = performance.now();
  authenticated = this.started;
  parsed = this.started;
  /** null: the request is not traced. */
  span: RequestSpan | null = null;
  /** null: a request that leaves no entry in the audit log, or that found no route. */
  route: ServedRoute | null = null;
  caller: Caller | null = null;
  /** The account of an operator who uses the admin socket; null: the caller has a token. */
  account: string | null = null;
  /** The caller's project, the same for the whole request. */
  project: Project | null = null;
  /** The memory of the request and its answer. */
  reservation: Reservation | null = null;
  /** The bytes of its JSON body, decompressed. */
  body: Buffer = Buffer.alloc(0);
  /** The data in its JSON body, such as the parameters of SQL, digit by digit. */
  data: readonly JsonNode[] = [];
  /** Free SQL that it runs: the text, and whether as the reader. */
  sql: { readonly text: string; readonly readOnly: boolean } | null = null;
  /** The code of its error answer. */
  errorCode: ErrorCode | null = null;
  /** The table that it is about, for the audit log; null: its path and body say so. */
  object: string | null = null;
  /** Rows stored or returned. */
  rows: number | null = null;
  /** The client left before the request was settled. */
  clientGone = false;
  /** The status of the answer, once it is over; null: none was begun. */
  status: number | null = null;

  private readonly controller = new AbortController();
  private readonly buffers: { free(): void }[] = [];
  private closed = false;
  private settled = false;

  /**
   * @param address of the client; the socket no longer knows it once the connection has closed
   * @param onEnd called when the request is closed and settled
   */
  constructor(
    readonly address: string,
    private readonly onEnd: () => void,
  ) {}

  /**
   * Aborted when the connection closes before the answer has been sent, or with the EngineError that ends the request.
   */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Ends its work, which fails with the reason. */
  abort(reason: EngineError): void {
    this.controller.abort(reason);
  }

  /** Frees the buffer once the response has been sent. If it never is, the garbage collector frees it. */
  freeWhenSent(buffer: { free(): void }): void {
    this.buffers.push(buffer);
  }

  /** The handler has ended, or the error exit has answered in its place. */
  handlerEnded(): void {
    if (this.settled) return;
    this.settled = true;
    if (this.closed) this.end();
  }

  /**
   * The answer has been sent, or the connection has closed.
   * @param status of the answer; null: none was begun
   */
  close(status: number | null, isSent: boolean): void {
    this.closed = true;
    this.status = status;
    // Node cannot say whether a broken connection delivered the last bytes.
    this.clientGone = !this.settled && this.errorCode === null;
    if (isSent && this.settled && this.errorCode === null) for (const buffer of this.buffers) buffer.free();
    if (!isSent) this.controller.abort(new Error('The client has disconnected'));
    if (this.settled) this.end();
  }

  private end(): void {
    this.reservation?.release();
    this.onEnd();
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    context: RequestContext;
  }
}
