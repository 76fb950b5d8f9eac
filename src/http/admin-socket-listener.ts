/**
 * The listener of the admin socket: admin routes without a token, since anyone who can open the socket is an operator.
 * It adds no audit entries: changes write their own, and reads leave none.
 */
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { ACCOUNT_HEADER } from '../contract/wire/admin-socket.js';
import type { Caller } from '../engine/access/tokens.js';
import type { ServiceUnderTest } from '../engine/doctor/doctor.js';
import { ErrorExit } from './response/error-exit.js';
import { forOperator } from './response/progress-response.js';
import { ADMIN_SOCKET_ROUTES } from './api/admin-socket-routes.js';
import type { RouteSettings } from './route.js';
import { type ListenerSettings, createListener } from './listener.js';
import { refuseOtherMethods } from './known-paths.js';
import { inputOf } from './serve-route.js';

const ADMIN_SOCKET_CALLER: Caller = {
  id: 'operator',
  name: null,
  expiresAt: null,
  scopes: new Set(),
  project: null,
  role: null,
  limits: null,
};

/** Returns a server that is not listening yet. Its `close` also waits for work whose client has disconnected. */
export function adminSocketListener(
  local: ServiceUnderTest,
  settings: ListenerSettings & RouteSettings,
  logger: Logger,
): FastifyInstance {
  const app = createListener({ ...settings, trustProxy: null }, new ErrorExit(logger));
  const running = new Set<Promise<unknown>>();
  app.addHook('onClose', async () => {
    await Promise.allSettled(running);
  });
  refuseOtherMethods(app);
  for (const route of ADMIN_SOCKET_ROUTES) {
    app.route({
      method: route.method,
      url: route.url,
      onRequest: (request, _reply, done) => {
        const { [ACCOUNT_HEADER]: account = '' } = request.headers;
        request.context.account = decoded(String(account));
        done();
      },
      ...inputOf(route, null),
      handler: async (request, reply) => {
        const { context } = request;
        const { signal } = context;
        const work = route.handle({ local, settings, caller: ADMIN_SOCKET_CALLER, request, reply, signal });
        running.add(work);
        try {
          const { body } = await work;
          context.handlerEnded();
          return body === null ? reply : await reply.code(route.success.status).send(body);
        } catch (error) {
          throw forOperator(error);
        } finally {
          running.delete(work);
        }
      },
    });
  }
  return app;
}

/** Accepts unencoded text too, from people who use a different tool. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
