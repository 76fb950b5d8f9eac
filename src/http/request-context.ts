/** The state of a request from its head to the last byte of its response, and the resources that it holds. */
import type { JsonNode } from '../codec/index.js';
import type { EngineError, ErrorCode } from '../contract/errors.js';
import type { Caller } from '../engine/access/tokens.js';
import type { Reservation } from '../engine/limits/memory-budget.js';
import type { Project } from '../db/project.js';
import type { Route } from './route.js';
import type { KnownPath } from './known-paths.js';
import type { RequestSpan } from './observability/request-spans.js';

export class RequestContext {
  /** When the head of the request had arrived, on the clock of `performance.now()`, as the next two. */
  readonly startedAt = performance.now();
  /** When the token had been accepted; `startedAt` if it was not. */
  authenticatedAt = this.startedAt;
  /** When the body had arrived; `startedAt` if it did not. */
  bodyReadAt = this.startedAt;
  /** Span of the request; null: it is not traced. */
  span: RequestSpan | null = null;
  /** The path that the request asks for, even if its method is not allowed there; null: no such path. */
  path: KnownPath | null = null;
  /** Matched route; null: none, or one without entries in the audit log. Of `/metrics` only the audit name. */
  route: (Pick<Route, 'audit'> & Partial<Route>) | null = null;
  caller: Caller | null = null;
  /** Account of an operator who uses the admin socket; null: the caller has a token. */
  account: string | null = null;
  /** The caller's project, with its state at admission. */
  project: Project | null = null;
  /** Memory for the body and the response. */
  reservation: Reservation | null = null;
  /** JSON body, decompressed. */
  body: Buffer = Buffer.alloc(0);
  /** Data in the JSON body, such as the parameters of SQL, with every digit of numbers. */
  data: readonly JsonNode[] = [];
  /** Text of free SQL, and whether it runs as the reader; null: the request runs none. */
  sql: { readonly text: string; readonly readOnly: boolean } | null = null;
  /** Code of the error response; null: the request has not failed. */
  errorCode: ErrorCode | null = null;
  /** Table for the audit log; null: the one in the path or the body. */
  auditObject: string | null = null;
  /** Names the request to the client that may cancel it; null: its client cannot. */
  clientKey: string | null = null;
  /** Rows stored or returned; null: the request counts none. */
  rows: number | null = null;
  /** Rows that came and went, where `rows` does not tell; null: it does. */
  moved: { readonly in: number; readonly out: number } | null = null;
  /** Whether the client disconnected before the handler or the error exit had ended. */
  clientGone = false;
  /** Status of the response, set at its end; null: no response was begun. */
  status: number | null = null;

  /** Answers `Expect: 100-continue`, if the client has sent that: it waits for permission to send its body. */
  askForBody: () => void = () => {};

  private readonly controller = new AbortController();
  private readonly buffers: { free(): void }[] = [];
  private closed = false;
  private settled = false;

  /**
   * @param address of the client; a socket forgets it when the connection closes
   * @param stallMs a client that reads nothing of the response for this long loses its connection
   * @param onEnd called when the request is closed and settled
   */
  constructor(
    readonly address: string,
    readonly stallMs: number,
    private readonly onEnd: () => void,
  ) {}

  /**
   * Aborts when the connection closes before the response has been sent, or with the EngineError that ends the request.
   */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Ends the work, which fails with the reason. */
  abort(reason: EngineError): void {
    this.controller.abort(reason);
  }

  /** Frees the buffer after the response has been sent. If it never is, the garbage collector frees the buffer. */
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
   * The response has been sent, or the connection has closed.
   * @param status of the response; null: no response was begun
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
