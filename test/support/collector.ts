/** An OpenTelemetry collector: an HTTP server that receives spans by OTLP, as JSON or protobuf, and keeps them. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';

/** As OTLP's JSON has it (opentelemetry-proto, trace/v1/trace.proto). */
export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  kind: number;
  attributes: Record<string, unknown>;
  events: { name: string }[];
  links: { traceId: string; spanId: string }[];
  status: { code?: number };
}

export interface Collector {
  readonly url: string;
  /** Bodies as they came, unpacked. */
  readonly bodies: Buffer[];
  readonly headers: IncomingHttpHeaders[];
  /** All that came as JSON so far. */
  spans(): ReceivedSpan[];
  /** Attributes of the resource that came last. */
  resource(): Record<string, unknown>;
  close(): Promise<void>;
}

interface KeyValue {
  key: string;
  value: Record<string, unknown>;
}

interface TracesData {
  resourceSpans: {
    resource: { attributes: KeyValue[] };
    scopeSpans: { spans: (Omit<ReceivedSpan, 'attributes'> & { attributes: KeyValue[] })[] }[];
  }[];
}

export async function startCollector(): Promise<Collector> {
  const bodies: Buffer[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      if (request.url === '/v1/traces') {
        headers.push(request.headers);
        bodies.push(request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
      }
      response.writeHead(request.url === '/v1/traces' ? 200 : 404).end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const received = () =>
    bodies.map((body) => JSON.parse(body.toString()) as TracesData).flatMap((data) => data.resourceSpans);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    headers,
    spans: () =>
      received()
        .flatMap(({ scopeSpans }) => scopeSpans)
        .flatMap(({ spans }) => spans)
        .map((span) => ({ ...span, attributes: plain(span.attributes) })),
    resource: () => plain(received().at(-1)?.resource.attributes ?? []),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const plain = (attributes: readonly KeyValue[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
