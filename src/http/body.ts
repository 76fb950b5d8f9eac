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
