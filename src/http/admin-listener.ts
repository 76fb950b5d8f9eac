/**
 * The listener of the admin socket: admin routes without a token, since whoever may open the socket is the operator. It
 * writes no audit entries of its own: a change writes its entry by itself, and commands that only look leave none.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { ACCOUNT_HEADER } from '../contract/wire/operator.js';
import type { Caller } from '../engine/access/tokens.js';
import { Answers } from './answer/answers.js';
import { forOperator } from './answer/progress-answer.js';
import { LOCAL_ROUTES, type LocalRoute, type Operated } from './api/local-routes.js';
import type { RouteSettings } from './api/route.js';
import { type AppSettings, createApp, defineRoutes } from './app.js';
import { readJsonBody } from './body.js';
import { readBody } from './connection/read-body.js';

const OPERATOR: Caller = { id: 'operator', name: null, scopes: new Set(), project: null };

/** Not yet listening. Its `close` also waits for work whose client has left. */
export function adminListener(
  operated: Operated,
  settings: AppSettings & RouteSettings,
  logger: Logger,
): FastifyInstance {
  const answers = new Answers(settings.streamStallMs, logger, false);
  const app = createApp({ ...settings, trustProxy: null }, answers);
  app.addContentTypeParser('application/json', readBody);
  const running = new Set<Promise<void>>();
  app.addHook('onClose', async () => {
    await Promise.all(running);
  });

  async function serve(route: LocalRoute, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const signal = request.exchange.departure;
    try {
      const { body } = await route.handle({ operated, settings, caller: OPERATOR, request, reply, signal });
      if (body !== null) answers.send(request, reply, route.success.status, JSON.stringify(body));
    } catch (error) {
      answers.fail(forOperator(error), request, reply);
    }
  }

  defineRoutes(app, () => {
    for (const route of LOCAL_ROUTES) {
      const { method, url, body, query } = route;
      app.route({
        method,
        url,
        schema: {
          ...(body === undefined ? {} : { body }),
          ...(query === undefined ? {} : { querystring: query }),
        },
        onRequest: (request, _reply, done) => {
          const { [ACCOUNT_HEADER]: account = '' } = request.headers;
          request.exchange.account = decoded(String(account));
          done();
        },
        ...(body === undefined ? {} : { preValidation: async (request) => readJsonBody(request) }),
        handler: (request, reply) => {
          const work = serve(route, request, reply);
          running.add(work);
          void work.finally(() => running.delete(work));
        },
      });
    }
  });
  return app;
}

/** A person with another tool than ours need not know of the encoding. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
