/**
 * The documentation page: Swagger UI with its files, in a Fastify of its own that does not listen. It is loaded when somebody
 * opens the page.
 */
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { DOCS_CONTENT_POLICY } from '../response/headers.js';

/** Answers a GET at or below its prefix. */
export type DocsPage = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/** Headers that Fastify sets again for the outer answer. */
const OF_THE_MESSAGE: ReadonlySet<string> = new Set(['connection', 'content-length', 'date', 'transfer-encoding']);

/** @param document OpenAPI */
export async function docsPage(document: object, routePrefix: string): Promise<DocsPage> {
  const page = Fastify();
  await page.register(swagger, { mode: 'static', specification: { document: document as never } });
  await page.register(swaggerUi, {
    routePrefix,
    uiConfig: { validatorUrl: null, supportedSubmitMethods: [] },
    staticCSP: DOCS_CONTENT_POLICY,
    logo: undefined as never,
  });
  return async ({ url, headers }, reply) => {
    const answer = await page.inject({ method: 'GET', url, headers });
    if (answer.statusCode >= 400) {
      reply.callNotFound();
      return reply;
    }
    for (const [name, value] of Object.entries(answer.headers)) {
      if (value !== undefined && !OF_THE_MESSAGE.has(name)) void reply.header(name, value);
    }
    return reply.code(answer.statusCode).send(answer.rawPayload);
  };
}
