/** Answers one message of the Model Context Protocol with the official SDK, without a session. */
import {
  createMcpHandler,
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isLegacyRequest,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server';
import { type ErrorCode, EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { valuesIn } from '../../contract/validator.js';
import { VERSION } from '../../version.js';
import type { RouteResponse, Call } from '../route.js';
import { asEngineError } from '../response/error-exit.js';
import { DATA_NOTICE, type Tool, toolError, type ToolResult } from './tool.js';
import { DESCRIBE_TABLE, DRY_RUN_INSERT, DRY_RUN_SQL, INSERT, LIST_TABLES, QUERY } from './tools.js';

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
  'disk_full',
  'data_corrupted',
  'internal',
];

/** @throws EngineError to be answered by the HTTP status */
export async function serveMcp(call: Call): Promise<RouteResponse> {
  const { request } = call;
  const { message: body, given } = withoutArguments(request.body);
  const protocolRequest = new Request('http://service/mcp', { method: 'POST', headers: headersOf(call) });
  if (isBareInitialize(body) && (await isLegacyRequest(protocolRequest, body))) {
    const message = 'Invalid params for initialize: it takes protocolVersion, capabilities and clientInfo';
    const error = { code: ProtocolErrorCode.InvalidParams, message };
    return { status: 200, body: { jsonrpc: '2.0', id: body.id, error } };
  }
  if (isJSONRPCNotification(body) && body.method === 'notifications/cancelled')
    call.engine.liveRequests.cancelByClient(
      clientKey(call, (body.params as { requestId?: unknown } | undefined)?.requestId),
    );
  if (isJSONRPCRequest(body)) request.context.clientKey = clientKey(call, body.id);
  let thrown: EngineError | null = null;
  const serverOf = () =>
    mcpServer(call, given, (error) => {
      thrown = error;
    });
  // No client needs notifications: the tools of a token never change.
  const handler = createMcpHandler(serverOf, { maxSubscriptions: 0, keepAliveMs: 0 });
  // The tool runs until the end of its stream.
  const answer = async () => {
    const response = await handler.fetch(protocolRequest, { parsedBody: body });
    return { response, text: (await response.text()).replace(LINE_ENDS, escaped) };
  };
  const { response, text } = await answer();
  if (thrown !== null) throw thrown as EngineError;
  const type = response.headers.get('content-type');
  return {
    status: response.status,
    body: [Buffer.from(text)],
    ...(type === null ? {} : { headers: { 'content-type': type } }),
  };
}

/**
 * There are no sessions, and clients count their requests from 0. The same token, address and program are the nearest
 * thing to the same client.
 */
const clientKey = ({ caller, request: { context, headers } }: Call, id: unknown): string =>
  JSON.stringify([caller.id, context.address, headers['user-agent'], id]);

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

/** A plain object, not an array. */
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Sets the arguments of a tool apart, because the SDK would copy and check them several times. Everything else in a message is
 * small.
 * @throws EngineError invalid_request
 */
function withoutArguments(body: unknown): { message: unknown; given: Record<string, unknown> } {
  const params = isObject(body) ? body.params : undefined;
  const given = isObject(params) && isObject(params.arguments) ? params.arguments : null;
  const message = given === null ? body : { ...(body as object), params: { ...(params as object), arguments: {} } };
  if (valuesIn(message, LIMITS.keysPerRecord) > LIMITS.keysPerRecord) {
    const what = `The message holds more than ${LIMITS.keysPerRecord} values besides the arguments of a tool`;
    throw new EngineError('invalid_request', what);
  }
  return { message, given: given ?? {} };
}

/** @param refuse receives an error to be answered by the HTTP status */
function mcpServer(call: Call, given: Record<string, unknown>, refuse: (error: EngineError) => void): Server {
  const server = new Server(
    { name: 'cdp-data-engine', version: VERSION },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  const tools = TOOLS.filter((tool) => tool !== INSERT || call.settings.mcpWrites);
  const visibleTools = tools.filter(({ scope }) => call.caller.scopes.has(scope));
  server.setRequestHandler('tools/list', () => ({
    tools: visibleTools.map(({ name, title, description, annotations, input, output }) => ({
      name,
      title,
      description,
      annotations: { title, openWorldHint: false, ...annotations },
      inputSchema: input as { type: 'object' },
      outputSchema: output as { type: 'object' },
    })),
  }));
  server.setRequestHandler('tools/call', async ({ params: { name } }): Promise<ToolResult> => {
    const tool = tools.find((candidate) => candidate.name === name);
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
      return toolError(error, call.request);
    }
  });
  return server;
}
