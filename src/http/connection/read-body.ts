/**
 * Collects the bytes of a body, for Fastify as the parser of its content type. They go into memory that is used again
 * ({@link releaseBody}) as they arrive, and the pieces that Node's parser has made of them are freed ({@link discard}):
 * Fastify's own way keeps all pieces, however small, and joins them in the end.
 */
import type { IncomingMessage } from 'node:http';
import { errorCodes, type FastifyRequest } from 'fastify';
import { LIMITS } from '../../contract/limits.js';
import { giveBuffer, takeBuffer } from '../../postgres/spare-buffers.js';
import { discard, MIN_DISCARDED_BYTES } from '../../postgres/discard.js';
import type { BodySink, WholeRequest } from './whole-request.js';

type Done = (error: Error | null, body?: Buffer) => void;

/** The errors are those of Fastify's own parsers, for one error exit. */
export function readBody(_request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const request = payload as WholeRequest;
  const header = request.headers['content-length'];
  const announced = header === undefined ? null : Number(header);
  if ((announced ?? 0) > LIMITS.bodyBytes) done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
  else request.pour(new Collector(request, done, announced));
}

/** Gives the memory of a body back. The caller has done with its bytes, and with whatever was cut from them. */
export function releaseBody(request: FastifyRequest): void {
  const { body } = request;
  request.body = null;
  if (Buffer.isBuffer(body)) giveBuffer(body);
}

/** What a body without a length is given first. */
const FIRST_BYTES = 16 * 1024;

const NOTHING = Buffer.alloc(0);

class Collector implements BodySink {
  private bytes: Buffer = NOTHING;
  private filled = 0;

  /** @param announced bytes, where Node's parser ends the request; null: nobody knows how many will come */
  constructor(
    private readonly request: WholeRequest,
    private readonly done: Done,
    private readonly announced: number | null,
  ) {}

  piece(bytes: Buffer): void {
    const filled = this.filled + bytes.length;
    if (filled > LIMITS.bodyBytes) this.fail(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    // A small one that is there as a whole stays where it is.
    else if (bytes.length === this.announced && bytes.length < MIN_DISCARDED_BYTES) this.bytes = bytes;
    else {
      if (filled > this.bytes.length) this.grow(this.announced ?? Math.max(filled, FIRST_BYTES));
      bytes.copy(this.bytes, this.filled);
      discard(bytes);
    }
    this.filled = filled;
  }

  end(): void {
    const { bytes, filled } = this;
    this.done(null, filled === bytes.length ? bytes : bytes.subarray(0, filled));
  }

  fail(error: Error & { statusCode?: number }): void {
    error.statusCode ??= 400;
    this.request.stopPouring();
    this.done(error);
  }

  private grow(size: number): void {
    const { bytes } = this;
    this.bytes = takeBuffer(size);
    bytes.copy(this.bytes, 0, 0, this.filled);
    giveBuffer(bytes);
  }
}
