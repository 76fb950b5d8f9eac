/**
 * The documentation page: Swagger UI with its files, in a separate Fastify instance that does not listen. It is loaded
 * when someone first opens the page.
 */
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';

/**
 * The `content-security-policy` of the documentation page: it loads everything from this server, and Swagger UI sets
 * styles in attributes. Unlike the plugin's default, it does not upgrade requests to HTTPS, which may be unavailable.
 */
const DOCS_CONTENT_POLICY = {
  'default-src': "'self'",
  'style-src': "'self' 'unsafe-inline'",
  'img-src': "'self' data:",
  'object-src': "'none'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
};

/** Answers a GET at or below its prefix. */
export type DocsPage = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/** Headers that Fastify sets itself for the outer response. */
const OF_THE_MESSAGE: ReadonlySet<string> = new Set(['connection', 'content-length', 'date', 'transfer-encoding']);

/** A table with its header, instead of the plugin's logo. */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#205375"/>' +
  '<path d="M3 4h10v2H3zM3 7.5h4.5v2H3zM8.5 7.5H13v2H8.5zM3 11h4.5v2H3zM8.5 11H13v2H8.5z" fill="#fff"/></svg>';

/** @param document OpenAPI */
export async function docsPage(document: object, routePrefix: string): Promise<DocsPage> {
  const page = Fastify();
  await page.register(swagger, { mode: 'static', specification: { document: document as never } });
  await page.register(swaggerUi, {
    routePrefix,
    // The base layout has no top bar with a logo and a field for other documents.
    uiConfig: { validatorUrl: null, layout: 'BaseLayout' },
    staticCSP: DOCS_CONTENT_POLICY,
    theme: {
      title: 'CDP Data Engine',
      favicon: [{ filename: 'icon.svg', rel: 'icon', type: 'image/svg+xml', sizes: 'any', content: ICON }],
    },
    logo: { type: 'image/svg+xml', content: ICON },
  });
  return async ({ url, headers }, reply) => {
    const response = await page.inject({ method: 'GET', url, headers });
    if (response.statusCode >= 400) {
      reply.callNotFound();
      return reply;
    }
    for (const [name, value] of Object.entries(response.headers)) {
      if (value !== undefined && !OF_THE_MESSAGE.has(name)) void reply.header(name, value);
    }
    return reply.code(response.statusCode).send(response.rawPayload);
  };
}
