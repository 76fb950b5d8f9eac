/**
 * Spans of requests, by the semantic conventions of OpenTelemetry for HTTP servers and for database clients (both
 * stable), with attributes of our own as `cdp.…`. By default, a span contains nothing chosen by a caller. Loaded only if
 * traces are configured.
 */
import {
  type Attributes,
  type Context,
  createTraceState,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from '@opentelemetry/api';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ChildSpan, RequestTrace } from '../../db/trace.js';
import { patternOf } from '../known-paths.js';
import { asEngineError } from '../response/error-exit.js';
import { readTraceparent, type TraceContext, type TraceDetail } from './trace-context.js';

interface SpanSettings {
  readonly detail: TraceDetail;
  /** Whether to accept the trace context of a request. */
  readonly takesContext: boolean;
}

/** Not traced: requested every few seconds, they would make up most traces. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

/** Methods in the conventions; any other is `_OTHER`. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE']);

/** Maximum length of a statement in a span. Thousands of spans wait in memory; a statement of 1 MiB in each would fill it. */
const STATEMENT_CHARACTERS = 8 * 1024;

export class RequestSpans {
  /** Paths in OpenAPI's form: `/data/{table_name}` for `/data/:table_name`. */
  private readonly templates = new Map<string, string>();

  constructor(
    private readonly tracer: Tracer,
    private readonly settings: SpanSettings,
  ) {}

  /** @returns null for a request that is not traced */
  begin(request: FastifyRequest): RequestSpan | null {
    const url = patternOf(request);
    if (url !== undefined && PROBES.has(url)) return null;
    const route = url === undefined ? undefined : this.templateOf(url);
    const method = METHODS.has(request.method) ? request.method : '_OTHER';
    const name = method === '_OTHER' ? 'HTTP' : method;
    const attributes: Attributes = { 'http.request.method': method, 'url.scheme': 'http' };
    if (method === '_OTHER') attributes['http.request.method_original'] = request.method;
    if (route !== undefined) Object.assign(attributes, { 'http.route': route, 'url.path': route });
    if (this.settings.detail !== 'route') Object.assign(attributes, namesIn(request));
    const span = this.tracer.startSpan(
      route === undefined ? name : `${name} ${route}`,
      { kind: SpanKind.SERVER, attributes },
      this.settings.takesContext ? parentOf(request) : ROOT_CONTEXT,
    );
    return new RequestSpan(this.tracer, span, request, this.settings.detail);
  }

  private templateOf(url: string): string {
    const template = this.templates.get(url) ?? url.replace(/:(\w+)/g, '{$1}');
    this.templates.set(url, template);
    return template;
  }
}

/** Attributes from the head of the request that identify the caller, or that the caller has chosen. */
function namesIn({ url, context, headers }: FastifyRequest): Attributes {
  const agent = headers['user-agent'];
  return {
    'url.path': url.split('?', 1)[0] ?? url,
    'client.address': context.address,
    ...(agent === undefined ? {} : { 'user_agent.original': agent }),
  };
}

/** Without a valid `traceparent`, `tracestate` is ignored (W3C Trace Context, section 3.3). */
function parentOf({ headers }: FastifyRequest): Context {
  const parent = readTraceparent(headers.traceparent);
  if (parent === null) return ROOT_CONTEXT;
  const { traceId, spanId, isSampled } = parent;
  const { tracestate } = headers;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote: true,
    ...(typeof tracestate === 'string' ? { traceState: createTraceState(tracestate) } : {}),
  });
}

export class RequestSpan {
  /** The parent of all further spans. */
  readonly context: TraceContext;
  /** For the engine; null: the sampler has dropped the request. */
  readonly trace: RequestTrace | null;

  constructor(
    tracer: Tracer,
    private readonly span: Span,
    request: FastifyRequest,
    private readonly detail: TraceDetail,
  ) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.context = { traceId, spanId, isSampled: (traceFlags & TraceFlags.SAMPLED) !== 0 };
    this.trace = span.isRecording() ? new SpansBelow(tracer, span, request, detail) : null;
  }

  /** The response has been sent, or the connection has closed. */
  end({ context, id }: FastifyRequest, { raw }: FastifyReply): void {
    const { span } = this;
    const { errorCode, caller, rows } = context;
    if (this.trace === null) return void span.end();
    span.setAttribute('cdp.request_id', id);
    if (raw.headersSent) span.setAttribute('http.response.status_code', raw.statusCode);
    if (rows !== null) span.setAttribute('cdp.rows', rows);
    if (!raw.writableFinished) span.setAttribute('cdp.aborted', true);
    if (this.detail !== 'route' && caller?.project != null) span.setAttribute('cdp.project', caller.project.name);
    if (errorCode !== null) {
      span.setAttribute('cdp.error', errorCode);
      // A client error is not an error of the server; a stream that breaks off after its 200 is one.
      if (raw.statusCode < 400 || raw.statusCode >= 500) {
        span.setAttribute('error.type', errorCode);
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
    }
    if (context.authenticatedAt > context.startedAt) span.addEvent('authenticated', context.authenticatedAt);
    if (context.bodyReadAt > context.startedAt) span.addEvent('body read', context.bodyReadAt);
    span.end();
  }
}

interface Params {
  table_name: string;
}

/** Spans of the engine's work for a request. */
class SpansBelow implements RequestTrace {
  constructor(
    private readonly tracer: Tracer,
    private readonly span: Span,
    private readonly request: FastifyRequest,
    private readonly detail: TraceDetail,
    /** The command in Postgres, if it is not the route's. */
    private readonly command?: string,
    /** Requests whose batches go into the same COPY. */
    private readonly sharers: readonly SpansBelow[] = [],
  ) {}

  startWait(): ChildSpan {
    return new OpenTelemetrySpan(this.tracer.startSpan('wait for a slot', {}, this.context));
  }

  startCall(): ChildSpan {
    const { request, detail, sharers } = this;
    const { route } = request.context;
    const command = this.command ?? route?.command;
    const attributes: Attributes = { 'db.system.name': 'postgresql' };
    if (command !== undefined) attributes['db.operation.name'] = command;
    const table = detail === 'route' ? undefined : (request.params as Partial<Params>).table_name;
    if (table !== undefined) attributes['db.collection.name'] = table;
    const { sql } = request.context;
    if (detail === 'statements' && sql !== null) attributes['db.query.text'] = sql.text.slice(0, STATEMENT_CHARACTERS);
    const links: Link[] = sharers.map(({ span }) => ({ context: span.spanContext() }));
    const name = [command ?? 'postgresql', ...(table === undefined ? [] : [table])].join(' ');
    const call = this.tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes, links }, this.context);
    for (const { span } of sharers) span.addLink({ context: call.spanContext() });
    return new OpenTelemetrySpan(call);
  }

  forCopy(others: readonly RequestTrace[]): RequestTrace {
    const sharers = others.filter((other) => other instanceof SpansBelow);
    return new SpansBelow(this.tracer, this.span, this.request, this.detail, 'COPY', sharers);
  }

  private get context(): Context {
    return trace.setSpan(ROOT_CONTEXT, this.span);
  }
}

class OpenTelemetrySpan implements ChildSpan {
  constructor(private readonly span: Span) {}

  /** Records only the code and SQLSTATE of an error: its message may quote values. */
  end(error?: unknown): void {
    if (error !== undefined) {
      const { code, postgres } = asEngineError(error);
      this.span.setAttribute('error.type', code);
      if (postgres !== undefined) this.span.setAttribute('db.response.status_code', postgres.sqlstate);
      this.span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.span.end();
  }
}
