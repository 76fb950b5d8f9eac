/**
 * The log's line of each request: no values, no names of the caller's tables, no token. It is put together here, since the
 * general way to one costs a small request more than its authentication.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Caller } from '../../engine/access/tokens.js';
import { ms } from '../answer/server-timing.js';
import { traceContextOf } from './trace-context.js';

export class RequestLog {
  private readonly stream: DestinationStream;
  private readonly isOn: boolean;
  /** What stands between the time and the request's id. */
  private readonly behindTime: string;
  /** The line up to the seconds of its time, and which second that is. */
  private second = -1;
  private upToSecond = '';
  /** What lines say of those who called, for as long as they are known. */
  private readonly callers = new WeakMap<Caller, string>();

  constructor(logger: Logger) {
    this.stream = (logger as unknown as Record<symbol, DestinationStream>)[pino.symbols.streamSym] as DestinationStream;
    this.isOn = logger.isLevelEnabled('info');
    const bindings = JSON.stringify(logger.bindings()).slice(1, -1);
    this.behindTime = `Z",${bindings === '' ? '' : `${bindings},`}"request_id":"`;
  }

  /** @param route its pattern; the rest of the line is as pino writes it */
  write(request: FastifyRequest, { raw }: FastifyReply, route: string, duration: number): void {
    if (!this.isOn) return;
    const { method, id, exchange } = request;
    const { errorCode, caller, rows } = exchange;
    let line = `${this.upToMilliseconds()}${this.behindTime}${id}","method":"${method}","route":"${route}","status":${raw.statusCode},"address":"${exchange.address}","duration_ms":${ms(duration)}`;
    if (errorCode !== null) line += `,"error":"${errorCode}"`;
    if (caller !== null) line += this.fieldsOf(caller);
    if (rows !== null) line += `,"rows":${rows}`;
    if (!raw.writableFinished) line += ',"aborted":true';
    const context = traceContextOf(request);
    if (context !== null) line += `,"trace_id":"${context.traceId}","span_id":"${context.spanId}"`;
    this.stream.write(`${line},"msg":"request"}\n`);
  }

  private fieldsOf(caller: Caller): string {
    const known = this.callers.get(caller);
    if (known !== undefined) return known;
    const project = caller.project === null ? '' : `,"project":"${caller.project.name}"`;
    // The subject of a JWT may be any text.
    const fields = `${project},"token":${JSON.stringify(caller.id)}`;
    this.callers.set(caller, fields);
    return fields;
  }

  /** The time in ISO 8601 and UTC, as `pino.stdTimeFunctions.isoTime` has it. */
  private upToMilliseconds(): string {
    const now = Date.now();
    const second = Math.floor(now / 1_000);
    if (second !== this.second) {
      this.second = second;
      this.upToSecond = `{"level":30,"time":"${new Date(second * 1_000).toISOString().slice(0, -4)}`;
    }
    return `${this.upToSecond}${String(now - second * 1_000).padStart(3, '0')}`;
  }
}
