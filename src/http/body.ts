/** From the bytes of a body to what a route takes: unpacked, and JSON where the route has a schema for it. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { refuseDuplicateKeys } from '../engine/json/nodes.js';
import { readJson } from '../engine/json/read-json.js';

const unpack = promisify(gunzip);

/** A batch of 250 records in one step: each is a turn of a thread, and takes as long as unpacking 16 KiB. */
const UNPACKED_AT_ONCE = 64 * 1024;

/**
 * The body's bytes, unpacked, when it is their turn to be read: at once where there is nothing to unpack or to wait for.
 * @throws EngineError unsupported_media_type, invalid_request, payload_too_large
 */
export function decodeBody(request: FastifyRequest): Buffer | Promise<Buffer> {
  const bytes = Buffer.isBuffer(request.body) ? request.body : NOTHING;
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase();
  return encoding === 'identity' ? inTurn(request, bytes) : unpacked(request, bytes, encoding);
}

const NOTHING = Buffer.alloc(0);

function inTurn(request: FastifyRequest, bytes: Buffer): Buffer | Promise<Buffer> {
  const { place, project } = request.exchange;
  place?.resize(bytes.length);
  const turn = project?.pace(bytes.length);
  return turn === undefined ? bytes : turn.then(() => bytes);
}

async function unpacked(request: FastifyRequest, bytes: Buffer, encoding: string): Promise<Buffer> {
  if (encoding !== 'gzip') {
    throw new EngineError('unsupported_media_type', 'The Content-Encoding must be gzip or identity');
  }
  try {
    return await inTurn(
      request,
      await unpack(bytes, { maxOutputLength: LIMITS.bodyBytes, chunkSize: UNPACKED_AT_ONCE }),
    );
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
 * The body as JSON, its value put in place of the bytes for the route's schema; at once, as {@link decodeBody}.
 * @throws EngineError invalid_json and those of {@link decodeBody}
 */
export function readJsonBody(request: FastifyRequest): Promise<void> | undefined {
  const bytes = decodeBody(request);
  if (bytes instanceof Promise) return bytes.then((decoded) => read(request, decoded));
  read(request, bytes);
  return undefined;
}

function read(request: FastifyRequest, bytes: Buffer): void {
  const { exchange } = request;
  const dataField = exchange.route?.dataField;
  const document = readJson(bytes, LONG_ARRAYS, LONG_ARRAYS.depth);
  // Data nested in a body (the params of free SQL) may say what it likes; what the route reads may not.
  refuseDuplicateKeys(document.root, dataField === undefined);
  exchange.document = document;
  request.body = document.value(dataField);
}
