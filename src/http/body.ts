/**
 * The body of a request: read into memory that is freed with the request, decompressed, and parsed as JSON if the route
 * has a schema for it.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import type { EventLoopThrottle } from '../engine/limits/event-loop-throttle.js';
import { allSteps, GrowingBuffer, readJsonBody } from '../codec/index.js';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import type { Route } from './route.js';

/** The size that a body may reach: the limit, if it is chunked or compressed. */
export function announcedBytes(headers: IncomingHttpHeaders, limit: number = LIMITS.bodyBytes): number {
  if (headers['transfer-encoding'] !== undefined || headers['content-encoding'] !== undefined) return limit;
  const length = Number(headers['content-length'] ?? 0);
  return Number.isSafeInteger(length) ? Math.min(length, limit) : 0;
}

/** The limit for the bytes of a request's body. */
const limitOf = ({ context }: FastifyRequest): number => context.route?.bodyBytes ?? LIMITS.bodyBytes;

const tooLarge = (what: string, limit: number) =>
  new EngineError('payload_too_large', `The ${what} is larger than ${limit} bytes`);

/** The content types of streams (docs/api.md, "Streams"). */
const STREAM_TYPES: readonly string[] = ['application/x-ndjson', 'text/csv', 'text/tab-separated-values'];

/** Reserved for a stream that has sent nothing; then it reserves what it uses. */
const STREAM_BYTES = 64 * 1024;

/** Whether the body is a stream, on a route that takes them. */
export const isStream = ({ 'content-type': type = '' }: IncomingHttpHeaders, route: Pick<Route, 'streams'>): boolean =>
  route.streams === true && STREAM_TYPES.includes((type.split(';')[0] ?? '').trim().toLowerCase());

/** The memory to reserve for a body before it is read. */
export const bytesToReserve = (headers: IncomingHttpHeaders, route: Pick<Route, 'streams' | 'bodyBytes'>): number =>
  isStream(headers, route) ? STREAM_BYTES : announcedBytes(headers, route.bodyBytes);

/** The size of the first buffer, if a body has no Content-Length. */
const FIRST_BYTES = 16 * 1024;

/**
 * Fastify's content type parser for every body. Fastify's own would keep every chunk, however small, and join them at
 * the end.
 */
export function readBody(
  request: FastifyRequest,
  payload: IncomingMessage,
  done: (error: Error | null, body?: Buffer) => void,
): void {
  request.context.askForBody();
  const limit = limitOf(request);
  const announced = payload.headers['content-length'];
  if (Number(announced ?? 0) > limit) return done(tooLarge('body', limit));
  const body = new GrowingBuffer(Number(announced ?? FIRST_BYTES));
  let length = 0;
  const fail = (error: Error) => {
    payload.removeListener('data', take).removeListener('end', end).removeListener('error', failed);
    body.free();
    done(error);
  };
  const failed = (error: Error) => fail(isReset(error) ? aborted(error) : error);
  const take = (chunk: Buffer) => {
    length += chunk.length;
    if (length > limit) return fail(tooLarge('body', limit));
    body.append(chunk);
  };
  const end = () => {
    request.context.freeWhenSent(body);
    done(null, body.bytes);
  };
  // The client may have disconnected while the request waited; then no event follows.
  if (payload.destroyed && !payload.readableEnded) return fail(aborted());
  payload.on('data', take).on('end', end).on('error', failed);
}

const aborted = (cause?: Error) =>
  new EngineError('invalid_request', 'The request was aborted by the client', { cause });

const isReset = (error: NodeJS.ErrnoException): boolean => error.code === 'ECONNRESET';

/** The body of a stream, piece by piece: none is read before it is asked for. */
export class PiecesOfBody {
  private waiting: { take: (piece: IteratorResult<Buffer, void>) => void; fail: (error: Error) => void } | null = null;
  private timer: NodeJS.Timeout | undefined;

  /** @param idleMs a client that sends nothing for this long is refused */
  constructor(
    private readonly raw: IncomingMessage,
    private readonly idleMs: number,
  ) {
    raw.on('readable', this.look).on('end', this.look).on('error', this.fail).on('close', this.look);
  }

  /** @throws EngineError invalid_request if the client has disconnected; request_timeout */
  next(): Promise<IteratorResult<Buffer, void>> {
    return new Promise((resolve, reject) => {
      this.waiting = { take: resolve, fail: reject };
      this.timer = setTimeout(() => this.fail(idle(this.idleMs)), this.idleMs);
      this.look();
    });
  }

  /** Call this at the end: what still arrives is read and forgotten, so that the client gets to read the response. */
  discard(): void {
    clearTimeout(this.timer);
    this.waiting = null;
    const { raw } = this;
    raw.off('readable', this.look).off('end', this.look).off('error', this.fail).off('close', this.look);
    // The response has been decided.
    raw.on('error', () => {}).resume();
  }

  private readonly look = (): void => {
    const { waiting, raw } = this;
    if (waiting === null) return;
    const piece = raw.read() as Buffer | null;
    if (piece !== null) this.settle(() => waiting.take({ done: false, value: piece }));
    else if (raw.readableEnded) this.settle(() => waiting.take({ done: true, value: undefined }));
    else if (raw.destroyed) this.fail(aborted());
  };

  private readonly fail = (error: Error): void => {
    const { waiting } = this;
    if (waiting !== null) this.settle(() => waiting.fail(isReset(error) ? aborted(error) : error));
  };

  private settle(done: () => void): void {
    clearTimeout(this.timer);
    this.waiting = null;
    done();
  }
}

const idle = (ms: number) => new EngineError('request_timeout', `Nothing of the body has arrived for ${ms} ms`);

const unpack = promisify(gunzip);

/**
 * The output buffer of zlib. Each step is a task for a thread, and takes as long for 16 KiB as for a batch of 250
 * records.
 */
const UNPACKED_AT_ONCE = 64 * 1024;

/**
 * The decompressed bytes of the body.
 * @throws EngineError unsupported_media_type, invalid_request, payload_too_large
 */
export async function decodeBody(request: FastifyRequest): Promise<Buffer> {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase();
  const bytes = encoding === 'identity' ? body : await decompress(body, encoding, limitOf(request));
  request.context.reservation?.resize(bytes.length);
  return bytes;
}

async function decompress(bytes: Buffer, encoding: string, limit: number): Promise<Buffer> {
  if (encoding !== 'gzip') {
    throw new EngineError('unsupported_media_type', 'The Content-Encoding must be gzip or identity');
  }
  try {
    return await unpack(bytes, { maxOutputLength: limit, chunkSize: UNPACKED_AT_ONCE });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge('decompressed body', limit);
    throw new EngineError('invalid_request', 'The body is not gzip, although Content-Encoding says so', {
      cause: error,
    });
  }
}

/**
 * Parses the body as JSON, for the schema of the route, when it is the project's turn.
 * @param throttle null: the requests are the operator's, and of no project
 * @throws EngineError invalid_json and those of {@link decodeBody}
 */
export async function parseJsonBody(request: FastifyRequest, throttle: EventLoopThrottle | null): Promise<void> {
  const { context } = request;
  const body = await decodeBody(request);
  context.body = body;
  const reading = readJsonBody(body, context.route?.dataField);
  const { project } = context;
  const isShared = project !== null && throttle !== null;
  const { value, data } = isShared ? await throttle.runSteps(project.id, reading) : allSteps(reading);
  context.data = data;
  request.body = value;
}
