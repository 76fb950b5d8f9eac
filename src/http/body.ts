/** From the bytes of a body to what a route takes: unpacked, and JSON where the route has a schema for it. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { type JsonDocument, readJson, refuseDuplicateKeys } from '../engine/json.js';

const unpack = promisify(gunzip);

/**
 * The body's bytes, unpacked, when it is their turn to be read.
 * @throws EngineError unsupported_media_type, invalid_request, payload_too_large
 */
export async function decodeBody(request: FastifyRequest): Promise<Buffer> {
  const bytes = await unpackedBody(request);
  request.place?.resize(bytes.length);
  await request.project?.pace(bytes.length);
  return bytes;
}

async function unpackedBody(request: FastifyRequest): Promise<Buffer> {
  const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase();
  if (encoding === 'identity') return bytes;
  if (encoding !== 'gzip') {
    throw new EngineError('unsupported_media_type', 'The Content-Encoding must be gzip or identity');
  }
  try {
    return await unpack(bytes, { maxOutputLength: LIMITS.bodyBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw error;
    throw new EngineError('invalid_request', 'The body is not gzip, although Content-Encoding says so', {
      cause: error,
    });
  }
}

/** No route takes an array with more items; the most are the parameters of a statement, which Postgres counts in 16 bits. */
const LONG_ARRAYS = {
  depth: 2,
  items: 65_535,
  exceeded: () => new EngineError('invalid_request', 'The body holds an array of more than 65535 items'),
};

/**
 * The body as JSON, its value put in place of the bytes for the route's schema.
 * @throws EngineError invalid_json and those of {@link decodeBody}
 */
export async function readJsonBody(request: FastifyRequest): Promise<JsonDocument> {
  const { dataField } = request.routeOptions.config;
  const document = readJson(await decodeBody(request), LONG_ARRAYS, LONG_ARRAYS.depth);
  // Data nested in a body (the params of free SQL) may say what it likes; what the route reads may not.
  refuseDuplicateKeys(document.root, dataField === undefined);
  request.body = document.value(dataField);
  return document;
}
