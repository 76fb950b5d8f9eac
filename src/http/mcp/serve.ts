/** Answers one message of the Model Context Protocol with the official SDK, without a session. */
import {
  createMcpHandler,
  isInitializeRequest,
  isJSONRPCRequest,
  isLegacyRequest,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server';
import type { ErrorCode, EngineError } from '../../contract/errors.js';
import { VERSION } from '../../version.js';
import type { RouteResponse, Call } from '../api/route.js';
import { asEngineError } from '../response/error-exit.js';
import { DATA_NOTICE, toolError, type ToolResult } from './tool-results.js';
import { INSERT, DRY_RUN_INSERT } from './insert-tools.js';
import { DESCRIBE_TABLE, LIST_TABLES } from './schema-tools.js';
import { QUERY, DRY_RUN_SQL } from './sql-tools.js';
import type { Tool } from './tool.js';

const TOOLS: readonly Tool[] = [LIST_TABLES, DESCRIBE_TABLE, QUERY, DRY_RUN_SQL, DRY_RUN_INSERT, INSERT];

const INSTRUCTIONS =
  'Tables and SQL of one project on its own Postgres. Call list_tables and describe_table before you write SQL. `query` only ' +
  `reads. ${DATA_NOTICE}`;

/**
 * Errors that concern the caller or the service, not the call of a tool: they are answered by the HTTP status, as on
 * other routes.
 */
const OF_HTTP: readonly ErrorCode[] = [
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'cdp_inactive',
  'rate_limited',
  'overloaded',
  'database_unavailable',
  'internal',
];

/** @throws EngineError to be answered by the HTTP status */
export async function serveMcp(call: Call): Promise<RouteResponse> {
  const { request } = call;
  const { body } = request;
  const received = new Request('http://service/mcp', { method: 'POST', headers: headersOf(call) });
  if (isBareInitialize(body) && (await isLegacyRequest(received, body))) {
    const message = 'Invalid params for initialize: it takes protocolVersion, capabilities and clientInfo';
    const error = { code: ProtocolErrorCode.InvalidParams, message };
    return { status: 200, body: { jsonrpc: '2.0', id: body.id, error } };
  }
  let thrown: EngineError | null = null;
  const serverOf = () =>
    mcpServer(call, (error) => {
      thrown = error;
    });
  // No client needs notifications: the tools of a token never change.
  const handler = createMcpHandler(serverOf, { maxSubscriptions: 0, keepAliveMs: 0 });
  const response = await handler.fetch(received, { parsedBody: body });
  const text = (await response.text()).replace(LINE_ENDS, escaped);
  if (thrown !== null) throw thrown as EngineError;
  const type = response.headers.get('content-type');
  return {
    status: response.status,
    body: [Buffer.from(text)],
    ...(type === null ? {} : { headers: { 'content-type': type } }),
  };
}

/**
 * An `initialize` without valid parameters, for which the SDK would return -32603 and the output of its validator. The
 * latest revision has no such method.
 */
const isBareInitialize = (body: unknown): body is JSONRPCRequest =>
  isJSONRPCRequest(body) && body.method === 'initialize' && !isInitializeRequest(body);

/**
 * Characters that JSON allows, but that some stream readers take for the end of a line: a value could forge a message
 * there.
 */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** The headers that the protocol reads, without the token. */
function headersOf({ request: { headers } }: Call): Record<string, string> {
  const names = ['accept', 'content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name'];
  return Object.fromEntries(
    names.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : [])),
  );
}

/** @param refuse receives an error to be answered by the HTTP status */
function mcpServer(call: Call, refuse: (error: EngineError) => void): Server {
  const server = new Server(
    { name: 'cdp-data-engine', version: VERSION },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  const served = TOOLS.filter((tool) => tool !== INSERT || call.settings.mcpWrites);
  const listed = served.filter(({ scope }) => call.caller.scopes.has(scope));
  server.setRequestHandler('tools/list', () => ({
    tools: listed.map(({ name, title, description, annotations, input, output }) => ({
      name,
      title,
      description,
      annotations: { title, openWorldHint: false, ...annotations },
      inputSchema: input as { type: 'object' },
      outputSchema: output as { type: 'object' },
    })),
  }));
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: given = {} } }): Promise<ToolResult> => {
    const tool = served.find((candidate) => candidate.name === name);
    if (tool === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name}`);
    try {
      return await tool.run(call, given);
    } catch (cause) {
      const error = asEngineError(cause);
      if (OF_HTTP.includes(error.code)) {
        refuse(error);
        throw error;
      }
      call.request.context.errorCode = error.code;
      return toolError(error, call.request.id);
    }
  });
  return server;
}
