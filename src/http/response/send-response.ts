/** Sends what a handler has returned. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Answer } from '../api/route.js';
import { JSON_TYPE, writeHead } from './headers.js';

/** Responses that go out at the end of this turn of the event loop. */
let ready: (() => void)[] = [];

/**
 * Responses of one turn go out together: a client that sleeps is woken by each write, which costs more than the write, and one
 * that was woken takes all of them (docs/decisions/0023).
 * @param stallMs a client that reads nothing for this long is disconnected
 */
export function sendResponse(
  request: FastifyRequest,
  reply: FastifyReply,
  stallMs: number,
  status: number,
  { body, headers }: Answer,
): void {
  const parts = Array.isArray(body)
    ? (body as readonly Buffer[])
    : [typeof body === 'string' ? body : JSON.stringify(body)];
  const length = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
  if (Array.isArray(body)) request.context.reservation?.resize(length);
  const { raw } = reply;
  reply.hijack();
  const send = () => {
    writeHead(request, reply, status, { 'content-type': JSON_TYPE, ...headers, 'content-length': length });
    raw.setTimeout(stallMs);
    raw.cork();
    for (const part of parts.slice(0, -1)) raw.write(part);
    raw.end(parts.at(-1));
  };
  if (ready.push(send) === 1) setImmediate(sendReady);
}

function sendReady(): void {
  const responses = ready;
  ready = [];
  for (const send of responses) send();
}
