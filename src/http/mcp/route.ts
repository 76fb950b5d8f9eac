/**
 * `POST /mcp`: the tools of the Model Context Protocol for agents. A request is a message of JSON-RPC, not of the API,
 * so it is in no OpenAPI document (docs/mcp.md, docs/decisions/0041-mcp.md).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { EngineError } from '../../contract/errors.js';
import { Type } from '../../contract/schema.js';
import type { Call, UndocumentedRoute } from '../api/route.js';

export const MCP: UndocumentedRoute = {
  method: 'POST',
  url: '/mcp',
  // Those of its tools; each asks for its own.
  access: ['schema:read', 'sql:read', 'sql:write', 'data:write'],
  // What a tool does has the word of the same operation of the API.
  audit: 'mcp',
  work: 'typed',
  ignoresKey: true,
  // The revision 2025-06-18 has taken batches out of the protocol: several calls would pass the rate limit as one.
  body: Type.Object({}),
  success: { status: 200 },
  async handle(call) {
    requireOrigin(call);
    // Loaded on demand: most services have no such requests.
    const { serveMcp } = await import('./serve.js');
    return serveMcp(call);
  },
};

/**
 * A page reaches the service by its own origin on loopback, or by one of the setting `cors-origins`. Any other may be
 * one whose name was made to lead here (MCP, "Transports", "Security Warning").
 * @throws EngineError origin_not_allowed
 */
function requireOrigin({ request, settings }: Call): void {
  const { origin } = request.headers;
  if (origin === undefined || settings.corsOrigins?.some((allowed) => allowed === '*' || allowed === origin)) return;
  if (isOwnLoopback(origin, request.headers)) return;
  throw new EngineError('origin_not_allowed', 'Pages of this origin may not call /mcp', {
    hint: 'Add the origin to the setting cors-origins.',
  });
}

/** A name that DNS can point elsewhere is never our own. */
const LOOPBACK = /^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

const isOwnLoopback = (origin: string, { host }: IncomingHttpHeaders): boolean =>
  LOOPBACK.test(origin) && origin === `http://${host}`;
