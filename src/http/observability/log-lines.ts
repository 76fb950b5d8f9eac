/**
 * Writes the log to standard output in large chunks. If output is blocked, because the disk is full or the reader of a
 * pipe has stalled, the service drops lines and continues.
 */
import { fstatSync, write, writeSync } from 'node:fs';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { DestinationStream, Logger } from 'pino';
import { roundedMs } from '../../contract/wire/fields.js';
import { routeOf } from './metrics.js';
import { traceContextOf } from './trace-context.js';

/** How long lines wait for others: a system call for each would slow every request. */
const DELAY_MS = 100;
const CHUNK_CHARACTERS = 32 * 1024;

/** If this much is waiting, further lines are dropped and counted. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

const STDOUT = 1;

interface Output {
  /** Bytes that are not written yet. */
  readonly waiting: number;
  write(text: string): void;
  /** Retries a failed write. */
  retry(): void;
  /** The process is exiting. */
  end(): void;
}

export class LogLines implements DestinationStream {
  private gathered = '';
  private dropped = 0;
  private readonly output: Output = isRead(STDOUT) ? new PipeOutput() : new FileOutput();

  constructor() {
    setInterval(() => this.flush(), DELAY_MS).unref();
    // Only once: retrying on a full disk would keep the process from exiting.
    process.once('beforeExit', () => this.flush());
    process.on('exit', () => {
      this.flush();
      this.output.end();
    });
  }

  write(line: string): void {
    this.gathered += line;
    if (this.gathered.length >= CHUNK_CHARACTERS) this.flush();
  }

  private flush(): void {
    const { output, gathered } = this;
    if (gathered === '') return output.retry();
    this.gathered = '';
    if (output.waiting > MAX_WAITING_BYTES) {
      this.dropped += gathered.split('\n').length - 1;
      return output.retry();
    }
    if (this.dropped > 0) output.write(dropNotice(this.dropped));
    this.dropped = 0;
    output.write(gathered);
  }
}

const dropNotice = (lines: number): string =>
  `${JSON.stringify({ level: 40, time: new Date().toISOString(), lines, msg: 'the log could not be written, and lines were dropped' })}\n`;

const isRead = (fd: number): boolean => fstatSync(fd).isFIFO() || fstatSync(fd).isSocket();

/** A pipe. Writing to it as to a file would block a thread, and the exit of the process, until someone reads. */
class PipeOutput implements Output {
  constructor() {
    // The reader may close the pipe.
    if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', () => {});
  }

  get waiting(): number {
    return process.stdout.writableLength;
  }

  write(text: string): void {
    process.stdout.write(text);
  }

  retry(): void {}

  end(): void {}
}

/** A file, a terminal or a device. A thread writes to it, since a disk can be slow. */
class FileOutput implements Output {
  private bytes = Buffer.alloc(0);
  private isWriting = false;

  get waiting(): number {
    return this.bytes.length;
  }

  write(text: string): void {
    const bytes = Buffer.from(text);
    this.bytes = this.bytes.length === 0 ? bytes : Buffer.concat([this.bytes, bytes]);
    this.retry();
  }

  retry(): void {
    if (this.isWriting || this.bytes.length === 0) return;
    this.isWriting = true;
    write(STDOUT, this.bytes, (error, written) => {
      this.isWriting = false;
      // The disk is full; a later write retries.
      if (error !== null) return;
      this.bytes = this.bytes.subarray(written);
      this.retry();
    });
  }

  end(): void {
    try {
      // If a thread is writing now, writing here would duplicate lines.
      if (!this.isWriting && this.bytes.length > 0) writeSync(STDOUT, this.bytes);
    } catch {
      // There is nowhere left to report this.
    }
  }
}

// The line of each request, without values, names of tables or tokens.

/** Paths that monitoring requests every few seconds. */
const HEALTH_CHECKS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/** For a health check, logs only failures and changes of the status. */
export function requestLog(logger: Logger): (request: FastifyRequest, reply: FastifyReply) => void {
  const lastStatus = new Map<string, number>();
  return (request, reply) => {
    const { statusCode: status } = reply.raw;
    const route = routeOf(request);
    if (HEALTH_CHECKS.has(route)) {
      if (status < 400 && lastStatus.get(route) === status) return;
      lastStatus.set(route, status);
    }
    logRequest(logger, request, reply);
  };
}

/** Fields that are undefined are left out. */
function logRequest(logger: Logger, request: FastifyRequest, { raw }: FastifyReply): void {
  if (!logger.isLevelEnabled('info')) return;
  const { startedAt, address, errorCode, caller, rows } = request.context;
  const trace = traceContextOf(request);
  logger.info(
    {
      request_id: request.id,
      method: request.method,
      route: routeOf(request),
      status: raw.statusCode,
      address,
      duration_ms: roundedMs(performance.now() - startedAt),
      error: errorCode ?? undefined,
      project: caller?.project?.name,
      token: caller?.id,
      rows: rows ?? undefined,
      aborted: raw.writableFinished ? undefined : true,
      trace_id: trace?.traceId,
      span_id: trace?.spanId,
    },
    'request',
  );
}
