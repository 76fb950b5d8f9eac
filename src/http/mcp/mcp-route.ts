/**
 * `POST /mcp`: the tools of the Model Context Protocol for agents. Requests are JSON-RPC messages, so the route is not
 * in the OpenAPI document (docs/mcp.md, docs/decisions/0041-mcp.md).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import type { Route, Call } from '../route.js';

export const MCP: Route = {
  method: 'POST',
  url: '/mcp',
  // The scopes of all tools; each tool requires its own.
  access: ['schema:read', 'sql:read', 'sql:write', 'data:write'],
  // For a message that calls no tool; a tool's work is recorded as that of the same operation of the API.
  audit: { operation: 'mcp', isChange: false },
  slot: 'typed',
  key: 'ignored',
  // Not an array: revision 2025-06-18 removed batches from the protocol, and the rate limit would count one as a single
  // call.
  body: Type.Object({}),
  bodyBytes: LIMITS.mcpBodyBytes,
  success: { status: 200 },
  async handle(call) {
    requireOrigin(call);
    // Loaded on demand: most installations get no such requests.
    const { serveMcp } = await import('./mcp-server.js');
    return serveMcp(call);
  },
};

/**
 * Accepts pages of an origin on loopback, or of one in the setting `cors-origins`. Any other may be an attempt at DNS
 * rebinding (MCP, "Transports", "Security Warning").
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

/** Only names that DNS cannot point elsewhere. */
const LOOPBACK = /^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

const isOwnLoopback = (origin: string, { host }: IncomingHttpHeaders): boolean =>
  LOOPBACK.test(origin) && origin === `http://${host}`;
