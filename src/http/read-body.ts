/**
 * Collects the bytes of a body, for Fastify as the parser of its content type. Where the length is announced, they go
 * into memory that is used again ({@link releaseBody}) as they arrive, and the pieces that Node's parser has made of them
 * are freed ({@link discard}): Fastify's own way keeps all pieces and joins them in the end.
 */
import type { IncomingMessage } from 'node:http';
import { errorCodes, type FastifyRequest } from 'fastify';
import { LIMITS } from '../contract/limits.js';
import { giveBuffer, takeBuffer } from '../postgres/spare-buffers.js';
import { discard } from './discard.js';

type Done = (error: Error | null, body?: Buffer) => void;

/** The errors are those of Fastify's own parsers, for one error exit. */
export function readBody(_request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const announced = Number(payload.headers['content-length'] ?? NaN);
  if (announced > LIMITS.bodyBytes) return done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
  const collected = Number.isNaN(announced) ? new Pieces() : new Announced(announced);
  let length = 0;
  const onData = (piece: Buffer) => {
    length += piece.length;
    if (length > LIMITS.bodyBytes) settle(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    else collected.add(piece);
  };
  const onEnd = () => {
    if (length === announced || Number.isNaN(announced)) settle(null, collected.body());
    else settle(new errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH());
  };
  const onError = (error: Error & { statusCode?: number }) => {
    error.statusCode ??= 400;
    settle(error);
  };
  const settle: Done = (error, body) => {
    payload.off('data', onData).off('end', onEnd).off('error', onError);
    done(error, body);
  };
  payload.on('data', onData).on('end', onEnd).on('error', onError).resume();
}

/** Gives the memory of a body back. The caller has done with its bytes, and with whatever was cut from them. */
export function releaseBody(request: FastifyRequest): void {
  const { body } = request;
  request.body = null;
  if (Buffer.isBuffer(body)) giveBuffer(body);
}

/** Of a body that did not say how long it will be. */
class Pieces {
  private readonly pieces: Buffer[] = [];

  add(piece: Buffer): void {
    this.pieces.push(piece);
  }

  body(): Buffer {
    return Buffer.concat(this.pieces);
  }
}

class Announced {
  private bytes: Buffer | null = null;
  private filled = 0;

  constructor(private readonly length: number) {}

  add(piece: Buffer): void {
    this.bytes ??= takeBuffer(this.length);
    this.filled += piece.copy(this.bytes, this.filled);
    discard(piece);
  }

  body(): Buffer {
    return this.bytes?.subarray(0, this.length) ?? Buffer.alloc(0);
  }
}
