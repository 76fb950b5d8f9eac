/**
 * Collects the bytes of a body, for Fastify as the parser of its content type. Where the length is announced, they go
 * into memory that is used again ({@link releaseBody}) as they arrive, and the pieces that Node's parser has made of them
 * are freed ({@link discard}): Fastify's own way keeps all pieces and joins them in the end.
 */
import type { IncomingMessage } from 'node:http';
import { errorCodes, type FastifyRequest } from 'fastify';
import { LIMITS } from '../contract/limits.js';
import { giveBuffer, takeBuffer } from '../postgres/spare-buffers.js';
import { discard, SMALLEST } from './discard.js';
import type { BodySink, WholeRequest } from './whole-request.js';

type Done = (error: Error | null, body?: Buffer) => void;

/** The errors are those of Fastify's own parsers, for one error exit. */
export function readBody(_request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const request = payload as WholeRequest;
  const announced = request.headers['content-length'];
  if (announced === undefined) request.pour(new Pieces(request, done));
  else if (Number(announced) > LIMITS.bodyBytes) done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
  else request.pour(new Announced(request, done, Number(announced)));
}

/** Gives the memory of a body back. The caller has done with its bytes, and with whatever was cut from them. */
export function releaseBody(request: FastifyRequest): void {
  const { body } = request;
  request.body = null;
  if (Buffer.isBuffer(body)) giveBuffer(body);
}

abstract class Collector implements BodySink {
  protected filled = 0;

  constructor(
    private readonly request: WholeRequest,
    private readonly done: Done,
  ) {}

  piece(bytes: Buffer): void {
    const filled = this.filled + bytes.length;
    if (filled > LIMITS.bodyBytes) this.fail(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    else this.add(bytes);
    this.filled = filled;
  }

  end(): void {
    this.done(null, this.body());
  }

  fail(error: Error & { statusCode?: number }): void {
    error.statusCode ??= 400;
    this.request.stopPouring();
    this.done(error);
  }

  protected abstract add(piece: Buffer): void;
  protected abstract body(): Buffer;
}

/** Of a body that did not say how long it will be. */
class Pieces extends Collector {
  private readonly pieces: Buffer[] = [];

  protected add(piece: Buffer): void {
    this.pieces.push(piece);
  }

  protected body(): Buffer {
    const body = Buffer.concat(this.pieces);
    this.pieces.forEach(discard);
    return body;
  }
}

/** Node's parser ends the request where its length says. */
class Announced extends Collector {
  private bytes: Buffer | null = null;

  constructor(
    request: WholeRequest,
    done: Done,
    private readonly length: number,
  ) {
    super(request, done);
  }

  protected add(piece: Buffer): void {
    // A small one that is there as a whole stays where it is.
    if (piece.length === this.length && piece.length < SMALLEST) this.bytes = piece;
    else {
      piece.copy((this.bytes ??= takeBuffer(this.length)), this.filled);
      discard(piece);
    }
  }

  protected body(): Buffer {
    return this.bytes?.subarray(0, this.length) ?? Buffer.alloc(0);
  }
}
