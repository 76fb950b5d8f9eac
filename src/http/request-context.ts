/** The state of a request from its head to the last byte of its response, and the resources that it holds. */
import type { JsonNode } from '../codec/index.js';
import type { EngineError, ErrorCode } from '../contract/errors.js';
import type { Caller } from '../engine/access/tokens.js';
import type { Reservation } from '../engine/limits/memory-budget.js';
import type { Project } from '../engine/project.js';
import type { ServedRoute } from './api/route.js';
import type { RequestSpan } from './observability/request-spans.js';

export class RequestContext {
  /** On the clock of `performance.now()`, like the ends of the stages. */
  readonly started = performance.now();
  authenticated = this.started;
  parsed = this.started;
  /** null: the request is not traced. */
  span: RequestSpan | null = null;
  /** Only a part for `/metrics`. null: the request leaves no entry in the audit log, or found no route. */
  route: (Pick<ServedRoute, 'url' | 'audit'> & Partial<ServedRoute>) | null = null;
  caller: Caller | null = null;
  /** The account of an operator who uses the admin socket; null: the caller has a token. */
  account: string | null = null;
  /** The caller's project, the same for the whole request. */
  project: Project | null = null;
  /** The memory of the request and its response. */
  reservation: Reservation | null = null;
  /** Its JSON body, decompressed. */
  body: Buffer = Buffer.alloc(0);
  /** The data in its JSON body, such as the parameters of SQL, with every digit of numbers. */
  data: readonly JsonNode[] = [];
  /** The free SQL that it runs, and whether it runs as the reader. */
  sql: { readonly text: string; readonly readOnly: boolean } | null = null;
  /** The code of its error response. */
  errorCode: ErrorCode | null = null;
  /** The table that it concerns, for the audit log; null: see its path and body. */
  object: string | null = null;
  /** Rows stored or returned. */
  rows: number | null = null;
  /** The client disconnected before the request was settled. */
  clientGone = false;
  /** The status of the response, after its end; null: no response was begun. */
  status: number | null = null;

  private readonly controller = new AbortController();
  private readonly buffers: { free(): void }[] = [];
  private closed = false;
  private settled = false;

  /**
   * @param address of the client; a socket loses it when the connection closes
   * @param stallMs a client that reads nothing of the response for this long loses its connection
   * @param onEnd called when the request is closed and settled
   */
  constructor(
    readonly address: string,
    readonly stallMs: number,
    private readonly onEnd: () => void,
  ) {}

  /**
   * Aborted when the connection closes before the response has been sent, or with the EngineError that ends the request.
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
