/** HTTP byte by byte, for requests that no well-behaved client would send. */
import { createConnection, type Socket } from 'node:net';
import type { TestResponse } from './service.js';

export interface RawResponse extends TestResponse {
  /** `HTTP/1.1` */
  version: string;
}

/** An open connection to the service. */
export function connect(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host: hostname, port: Number(port) }, () => {
      socket.off('error', reject);
      // A connection that the service breaks off ends the response; that is not a failure of the test.
      socket.on('error', () => {});
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

/**
 * Sends bytes on a connection of their own and reads until the service closes it.
 * @param patienceMs after this time the connection is closed from here, for responses that keep it open
 */
export async function exchange(url: string, bytes: string | Uint8Array, patienceMs = 1_000): Promise<string> {
  const socket = await connect(url);
  socket.write(bytes);
  return received(socket, patienceMs);
}

/** What arrives on a connection until it ends, or until the patience does. */
export function received(socket: Socket, patienceMs: number): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const end = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(text);
    };
    const timer = setTimeout(end, patienceMs);
    socket.on('data', (chunk: Buffer) => void (text += chunk.toString('latin1')));
    socket.once('close', end);
  });
}

/** The responses in what was received, which must all carry a Content-Length. */
export function responsesIn(text: string): RawResponse[] {
  const responses: RawResponse[] = [];
  for (let rest = text; rest !== '';) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) throw new Error(`Not an HTTP response: ${JSON.stringify(rest.slice(0, 200))}`);
    const [line = '', ...fields] = rest.slice(0, end).split('\r\n');
    const headers = new Headers(fields.map((field) => field.split(/: ?(.*)/s, 2) as [string, string]));
    const length = Number(headers.get('content-length') ?? 0);
    const body = rest.slice(end + 4, end + 4 + length);
    responses.push({
      version: line.slice(0, 8),
      status: Number(line.slice(9, 12)),
      headers,
      text: body,
      body: (body === '' ? undefined : JSON.parse(body)) as Record<string, unknown>,
    });
    rest = rest.slice(end + 4 + length);
  }
  return responses;
}

/** The one response to what was sent. */
export async function rawResponse(url: string, bytes: string | Uint8Array, patienceMs?: number): Promise<RawResponse> {
  const text = await exchange(url, bytes, patienceMs);
  const [response, ...more] = responsesIn(text);
  if (response === undefined) throw new Error('The service closed the connection without a response');
  if (more.length > 0) throw new Error(`${more.length + 1} answers came: ${text}`);
  return response;
}
