/**
 * The body of a request: read into memory that is freed with the request, decompressed, and parsed as JSON if the route
 * has a schema for it.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { errorCodes, type FastifyRequest } from 'fastify';
import { GrowingBuffer, type JsonNode, readJsonBody } from '../codec/index.js';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';

/** The size that a body may reach: the limit, if it is chunked or compressed. */
export function announcedBytes(headers: IncomingHttpHeaders): number {
  if (headers['transfer-encoding'] !== undefined || headers['content-encoding'] !== undefined) return LIMITS.bodyBytes;
  const length = Number(headers['content-length'] ?? 0);
  return Number.isSafeInteger(length) ? Math.min(length, LIMITS.bodyBytes) : 0;
}

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
  const announced = payload.headers['content-length'];
  if (Number(announced ?? 0) > LIMITS.bodyBytes) return done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
  const body = new GrowingBuffer(Number(announced ?? FIRST_BYTES));
  let length = 0;
  const fail = (error: Error) => {
    payload.removeListener('data', take).removeListener('end', end).removeListener('error', fail);
    body.free();
    done(error);
  };
  const take = (chunk: Buffer) => {
    length += chunk.length;
    if (length > LIMITS.bodyBytes) return fail(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    body.append(chunk);
  };
  const end = () => {
    request.context.freeWhenSent(body);
    done(null, body.bytes);
  };
  // The client may have disconnected while the request waited; then no event follows.
  if (payload.destroyed && !payload.readableEnded) return fail(brokenOff());
  payload.on('data', take).on('end', end).on('error', fail);
}

const brokenOff = () => Object.assign(new Error('The client has disconnected'), { code: 'ECONNRESET' });

const unpack = promisify(gunzip);

/**
 * The output buffer of zlib. Each step is a task for a thread, and takes as long for 16 KiB as for a batch of 250
 * records.
 */
const UNPACKED_AT_ONCE = 64 * 1024;

/**
 * The decompressed bytes of the body, as soon as the event-loop throttle lets the project read them.
 * @throws EngineError unsupported_media_type, invalid_request, payload_too_large
 */
export async function decodeBody(request: FastifyRequest): Promise<Buffer> {
  const { reservation, project } = request.context;
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase();
  const bytes = encoding === 'identity' ? body : await decompress(body, encoding);
  reservation?.resize(bytes.length);
  await project?.shared.throttle.pause(project.id, bytes.length);
  return bytes;
}

async function decompress(bytes: Buffer, encoding: string): Promise<Buffer> {
  if (encoding !== 'gzip') {
    throw new EngineError('unsupported_media_type', 'The Content-Encoding must be gzip or identity');
  }
  try {
    return await unpack(bytes, { maxOutputLength: LIMITS.bodyBytes, chunkSize: UNPACKED_AT_ONCE });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw error;
    throw new EngineError('invalid_request', 'The body is not gzip, although Content-Encoding says so', {
      cause: error,
    });
  }
}

/**
 * Parses the body as JSON, for the schema of the route.
 * @throws EngineError invalid_json and those of {@link decodeBody}
 */
export async function parseJsonBody(request: FastifyRequest): Promise<void> {
  const { context } = request;
  context.body = await decodeBody(request);
  const { value, data } = readJsonBody(context.body, context.route?.dataField);
  context.data = data;
  request.body = value;
}

/** A member of an object in a body, with every digit of its numbers; undefined if it has none of this name. */
export const memberOf = (node: JsonNode | undefined, name: string): JsonNode | undefined =>
  node?.kind === 'object' ? node.members.find(([key]) => key === name)?.[1] : undefined;
