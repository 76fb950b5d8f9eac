/**
 * Collects the bytes of a body, for Fastify as the parser of its content type. Where the length is announced, they go
 * into memory of just that length as they arrive, or are taken as they are when they came in one piece: Fastify's own
 * way keeps all pieces and joins them in the end, which is twice the memory for the collector of garbage.
 */
import type { IncomingMessage } from 'node:http';
import { errorCodes, type FastifyRequest } from 'fastify';
import { LIMITS } from '../contract/limits.js';

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
    // A piece that is part of something larger, which may be used for something else, is copied.
    if (piece.length === this.length && piece.buffer.byteLength === piece.length) this.bytes = piece;
    else {
      this.bytes ??= Buffer.allocUnsafeSlow(this.length);
      this.filled += piece.copy(this.bytes, this.filled);
    }
  }

  body(): Buffer {
    return this.bytes ?? Buffer.alloc(0);
  }
}
