/** Clients of the Model Context Protocol, both third-party and raw. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { type Call, call, type TestResponse, type TestService } from './service.js';

export interface ToolResponse {
  isError?: boolean;
  /** The first text. */
  text: string;
  structured: { notice: string; data: Record<string, unknown> } | undefined;
}

/** A client of the revision 2026-07-28. */
export async function connectMcp({ url }: Pick<TestService, 'url'>, token: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(
    new StreamableHTTPClientTransport(new URL('/mcp', url), {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
    }),
  );
  return client;
}

export const ACCEPT = { accept: 'application/json, text/event-stream' };

/** A message as it is. */
export const post = ({ url }: Pick<TestService, 'url'>, body: unknown, given: Call = {}): Promise<TestResponse> =>
  call(url, 'POST', '/mcp', { body, ...given, headers: { ...ACCEPT, ...given.headers } });

/** One request in the words of 2025-11-25, and what is in the response's only event. */
export async function rpc(
  service: Pick<TestService, 'url'>,
  token: string,
  method: string,
  params: object = {},
  given: Call = {},
): Promise<{ status: number; text: string; result: Record<string, unknown> | undefined; error: unknown }> {
  const body = { jsonrpc: '2.0', id: 1, method, params };
  const { status, text } = await post(service, body, { token, ...given });
  const event = text.split(/\r\n|\n|\r/).filter((line) => line.startsWith('data: '));
  const json = event.length === 0 ? text : event.map((line) => line.slice('data: '.length)).join('\n');
  const { result, error } = JSON.parse(json) as { result?: Record<string, unknown>; error?: unknown };
  return { status, text, result, error };
}

/** A call of a tool that is answered by a result, be it an error. */
export async function tool(
  service: Pick<TestService, 'url'>,
  token: string,
  name: string,
  args: object = {},
): Promise<ToolResponse> {
  const { result, text } = await rpc(service, token, 'tools/call', { name, arguments: args });
  if (result === undefined) throw new Error(`${name}: ${text}`);
  return toolResponse(result);
}

export function toolResponse(result: Record<string, unknown>): ToolResponse {
  const { content, structuredContent, isError } = result as {
    content: { text: string }[];
    structuredContent?: ToolResponse['structured'];
    isError?: boolean;
  };
  return { text: content[0]?.text ?? '', structured: structuredContent, ...(isError === undefined ? {} : { isError }) };
}

/** What is inside of the envelope, and what is before it. */
export function opened(text: string): { notice: string; data: Record<string, unknown> } {
  const [, notice = '', tag, json = ''] = /^([^]*?)\n<(data-[0-9a-f-]{36})>\n([^]*)\n<\/\2>$/.exec(text) ?? [];
  if (tag === undefined) throw new Error(`No envelope: ${text}`);
  return { notice, data: JSON.parse(json) as Record<string, unknown> };
}
