/** `cdp mcp`: forwards the messages of an MCP client on stdio to the service's /mcp, and returns the responses. */
import { Command } from 'commander';
import { networkError } from '../../client/transport.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import { linesOf } from './user-files.js';
import { warn } from '../terminal/output.js';
import { profileFromOptions, type Profile, requireUrl, withoutSlash } from './profiles.js';
import { remoteOptions } from './remote-options.js';

/** The fields of a message that HTTP headers repeat (MCP, "Streamable HTTP"). */
interface Message {
  id?: string | number;
  method?: string;
  params?: { name?: unknown; requestId?: string | number; _meta?: Record<string, unknown> };
}

const PARSE_ERROR = -32_700;
/** The code for errors of the service, in the range for implementations (JSON-RPC 2.0 section 5.1). */
const SERVICE_ERROR = -32_000;

export function mcpCommand(): Command {
  const command = new Command('mcp').description(
    'Serve the tools of the project to an MCP client on standard input and output',
  );
  return remoteOptions(command).action(async () => {
    const profile = await profileFromOptions(command);
    requireUrl(profile.url);
    const bridge = new Bridge(profile, (line) => void process.stdout.write(`${line}\n`));
    // End of input means that the client has finished; running calls still get their responses.
    for await (const line of linesOf(process.stdin)) bridge.take(line);
  });
}

class Bridge {
  /** The protocol version that the client and the service agreed on; later revisions send it in each message. */
  private version: string | undefined;
  private readonly running = new Map<string | number, AbortController>();

  constructor(
    private readonly profile: Profile,
    private readonly write: (line: string) => void,
  ) {}

  /** @param line one message */
  take(line: string): void {
    let message: Message;
    try {
      // The service rejects what is not a message.
      message = (JSON.parse(line) ?? {}) as Message;
    } catch {
      return this.fail(null, 'This is not JSON', {}, PARSE_ERROR);
    }
    const { id, method, params } = message;
    // Closing the connection cancels the call in the service.
    if (method === 'notifications/cancelled') this.running.get(params?.requestId ?? '')?.abort();
    else void this.forward(line, message).finally(() => this.running.delete(id ?? ''));
  }

  private async forward(line: string, message: Message): Promise<void> {
    const { id, method } = message;
    const controller = new AbortController();
    if (id !== undefined) this.running.set(id, controller);
    try {
      const response = await fetch(`${withoutSlash(this.profile.url)}/mcp`, {
        method: 'POST',
        body: line,
        headers: this.headersFor(message),
        signal: controller.signal,
      });
      const text = await response.text();
      for (const message of messagesIn(response, text)) {
        if (method === 'initialize') this.version = versionIn(message);
        if (isMessage(message)) this.write(message);
        else this.refusal(id, response, message);
      }
    } catch (error) {
      // A canceled call has no response (MCP, "Cancellation").
      if (controller.signal.aborted) return;
      this.fail(id, networkError('No response', error).message, {});
    }
  }

  private headersFor({ method, params }: Message): Record<string, string> {
    const version = params?._meta?.['io.modelcontextprotocol/protocolVersion'] ?? this.version;
    return {
      authorization: `Bearer ${this.profile.token}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(typeof version === 'string' ? { 'mcp-protocol-version': headerText(version) } : {}),
      ...(typeof method === 'string' ? { 'mcp-method': headerText(method) } : {}),
      ...(typeof params?.name === 'string' ? { 'mcp-name': headerText(params.name) } : {}),
    };
  }

  /** Reports an error of the service itself, for instance a revoked token. */
  private refusal(id: Message['id'], { status }: Response, text: string): void {
    const { error, message, hint } = jsonIn<Partial<ErrorBody>>(text) ?? {};
    const what = message ?? `The response with status ${status} is not from the service`;
    this.fail(id, hint === undefined ? what : `${what}. ${hint}`, { status, error });
  }

  /** @param id of the request; undefined: a notification, which gets no response */
  private fail(id: Message['id'] | null, message: string, data: object, code = SERVICE_ERROR): void {
    if (id === undefined) warn(message);
    else this.write(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } }));
  }
}

/** One message, or the events of a stream; none for an accepted notification. */
function messagesIn({ status, headers }: Response, text: string): string[] {
  if (status === 202) return [];
  if (!headers.get('content-type')?.startsWith('text/event-stream')) return [text];
  return text.split(/\r\n|\n|\r/).flatMap((line) => (line.startsWith('data: ') ? [line.slice('data: '.length)] : []));
}

const isMessage = (text: string): boolean => jsonIn<{ jsonrpc?: unknown }>(text)?.jsonrpc === '2.0';

const versionIn = (text: string): string | undefined =>
  jsonIn<{ result?: { protocolVersion?: string } }>(text)?.result?.protocolVersion;

function jsonIn<T>(text: string): T | null {
  try {
    return JSON.parse(text) as T | null;
  } catch {
    return null;
  }
}

/** Headers contain ASCII; other text is marked and encoded (MCP 2026-07-28, "Streamable HTTP"). */
const headerText = (text: string): string =>
  /^[\x21-\x7e]+$/.test(text) ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`;
