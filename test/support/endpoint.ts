/** An endpoint of webhooks: an HTTP server on loopback that keeps what it gets, and answers as a test says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

export interface Change {
  readonly cursor: string;
  readonly op: string;
  readonly table: string;
  readonly [member: string]: unknown;
}

export interface Received {
  readonly headers: Record<string, string>;
  readonly text: string;
  readonly body: { type: string; project: string; webhook: string; changes: Change[]; cursor: string };
}

/** Answers a delivery. Default: 204. */
export type Answer = (request: IncomingMessage, response: ServerResponse, received: Received) => void;

export interface Endpoint {
  readonly url: string;
  /** What came, in order, however it was answered. */
  readonly received: readonly Received[];
  answer: Answer;
  /** Changes of deliveries that came, in order. */
  changes(): Change[];
  close(): Promise<void>;
}

export const answered =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (_request, response) =>
    void response.writeHead(status, headers).end();

/** @param tls serves https with these */
export async function startEndpoint(
  answer: Answer = answered(204),
  { port = 0, tls }: { port?: number; tls?: { key: string; cert: string } } = {},
): Promise<Endpoint> {
  const received: Received[] = [];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const one = {
        headers: request.headers as Record<string, string>,
        text,
        body: JSON.parse(text) as Received['body'],
      };
      received.push(one);
      endpoint.answer(request, response, one);
    });
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const endpoint: Endpoint = {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}/changes`,
    received,
    answer,
    changes: () => received.flatMap(({ body }) => body.changes ?? []),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return endpoint;
}
