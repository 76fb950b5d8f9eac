/**
 * The log's line of each request: no values, no names of the caller's tables, no token. It is put together here, since the
 * general way to one costs a small request more than its authentication.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type DestinationStream, type Logger, pino } from 'pino';
import { ms } from '../answer/server-timing.js';
import { traceContextOf } from './trace-context.js';

export class RequestLog {
  private readonly stream: DestinationStream;
  private readonly isOn: boolean;
  /** What every line of the logger has, behind the time. */
  private readonly bindings: string;
  /** The time up to its seconds, and which second that is. */
  private second = -1;
  private upToSecond = '';

  constructor(logger: Logger) {
    this.stream = (logger as unknown as Record<symbol, DestinationStream>)[pino.symbols.streamSym] as DestinationStream;
    this.isOn = logger.isLevelEnabled('info');
    const bindings = JSON.stringify(logger.bindings()).slice(1, -1);
    this.bindings = bindings === '' ? '' : `${bindings},`;
  }

  /** @param route its pattern; the rest of the line is as pino writes it */
  write(request: FastifyRequest, { raw }: FastifyReply, route: string, duration: number): void {
    if (!this.isOn) return;
    const { errorCode, caller, rows, method, id, exchange } = request;
    let line = `{"level":30,"time":"${this.time()}",${this.bindings}"request_id":"${id}","method":"${method}","route":"${route}","status":${raw.statusCode},"address":"${exchange.address}","duration_ms":${ms(duration)}`;
    if (errorCode !== null) line += `,"error":"${errorCode}"`;
    if (caller !== null) {
      if (caller.project !== null) line += `,"project":"${caller.project.name}"`;
      // The subject of a JWT may be any text.
      line += `,"token":${JSON.stringify(caller.id)}`;
    }
    if (rows !== null) line += `,"rows":${rows}`;
    if (!raw.writableFinished) line += ',"aborted":true';
    const context = traceContextOf(request);
    if (context !== null) line += `,"trace_id":"${context.traceId}","span_id":"${context.spanId}"`;
    this.stream.write(`${line},"msg":"request"}\n`);
  }

  /** ISO 8601 in UTC, as `pino.stdTimeFunctions.isoTime` has it. */
  private time(): string {
    const now = Date.now();
    const second = Math.floor(now / 1_000);
    if (second !== this.second) {
      this.second = second;
      this.upToSecond = new Date(second * 1_000).toISOString().slice(0, -4);
    }
    return `${this.upToSecond}${String(now - second * 1_000).padStart(3, '0')}Z`;
  }
}
