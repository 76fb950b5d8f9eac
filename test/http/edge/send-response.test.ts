/** Responses that are sent in one turn of the event loop do not depend on each other. */
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createListener, finishRequests } from '../../../src/http/listener.js';
import { ErrorExit } from '../../../src/http/response/error-exit.js';
import { sendResponse } from '../../../src/http/response/response.js';

const lines: string[] = [];
let app: FastifyInstance;
let url: string;

/** Resolves when three requests wait for it, so that all respond in one turn. */
let waiting = 0;
let allHere: () => void;
const together = new Promise<void>((resolve) => (allHere = resolve));

beforeAll(async () => {
  const settings = { requestTimeoutMs: 30_000, streamStallMs: 30_000, trustProxy: null };
  app = createListener(settings, new ErrorExit(pino({}, { write: (line) => void lines.push(line) })));
  app.get<{ Querystring: { value: string } }>('/', async (request, reply) => {
    if (++waiting === 3) allHere();
    await together;
    request.context.handlerEnded();
    sendResponse(request, reply, 200, { body: { success: true }, headers: { 'x-value': request.query.value } });
    return reply;
  });
  url = await app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(() => finishRequests(app, 0));

it('breaks off only the response that cannot be sent, and logs why', async () => {
  const ask = (value: string) => fetch(`${url}/?value=${encodeURIComponent(value)}`).then(({ status }) => status);
  const [bad, ...good] = await Promise.allSettled([ask('two\nlines'), ask('a'), ask('b')]);
  expect(bad?.status).toBe('rejected');
  expect(good).toEqual([
    { status: 'fulfilled', value: 200 },
    { status: 'fulfilled', value: 200 },
  ]);
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    msg: 'internal error',
    cause: expect.stringContaining('Invalid character in header content ["x-value"]') as string,
  });
}, 10_000);
