/** The answers of free SQL: one JSON object around rows that are JSON bytes already, or a stream of rows. */
import { finished } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import type { Project } from '../../engine/project.js';
import type { SqlResult } from '../../engine/sql/sql-result.js';
import type { RowBytes } from '../../postgres/results/row-bytes.js';
import { type StreamFormat, type StreamRequest, streamSql } from '../../engine/sql/stream.js';
import { allHeadersOf } from './answers.js';
import { inPieces, type Pieces } from './pieces.js';
import { asEngineError, errorBody } from './error-exit.js';
import type { Context } from '../api/route.js';

/** With every parameter that a client may name; the first is what a client without a preference gets. */
const MEDIA_TYPES: Readonly<Record<string, StreamFormat | null>> = {
  'application/json; charset=utf-8': null,
  'application/x-ndjson; charset=utf-8': 'ndjson',
  'application/ndjson; charset=utf-8': 'ndjson',
  'text/csv; charset=utf-8; header=present': 'csv',
};

/**
 * What the client would rather have (RFC 9110 section 12.5.1, with weights and wildcards); null: one JSON object, which it
 * also gets if it accepts none of them.
 */
export function streamFormat(request: FastifyRequest): StreamFormat | null {
  const { accept } = request.headers;
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return null;
  const [preferred] = new Negotiator(request.raw).mediaTypes(Object.keys(MEDIA_TYPES));
  return MEDIA_TYPES[preferred ?? ''] ?? null;
}

/** The top level speaks for the last statement; `results` holds all where there are several. */
export function sqlAnswer(results: readonly SqlResult[]): Buffer | Pieces {
  const last = results.at(-1);
  if (last === undefined) throw new Error('Free SQL has run no statement');
  if (results.length === 1 && last.rows !== null) return inPieces(aroundRows(last, last.rows));
  const head = headOf(last);
  const parts = [head, ...rowsOf(last), behindRows(last)];
  if (results.length > 1) {
    results.forEach((result, i) => {
      parts.push(`${i > 0 ? '},{' : ',"results":[{'}${beforeRows(result)}`, ...rowsOf(result), behindRows(result));
    });
    parts.push('}]');
  }
  return joined([...parts, '}']);
}

/** Requests that shared a write have their rows in common, and what is around them. */
const aroundRows = (result: SqlResult, rows: RowBytes): readonly Buffer[] =>
  rows.whole ?? rows.between(headOf(result), `${behindRows(result)}}`);

const headOf = (result: SqlResult): string => `{"success":true,${beforeRows(result)}`;

const beforeRows = ({ type }: SqlResult): string => `"type":${JSON.stringify(type)},"rows":[`;

const rowsOf = ({ rows }: SqlResult): (string | Buffer)[] => rows?.views() ?? [];

function behindRows({ rowCount, columnsJson, truncated, affectedRows }: SqlResult): string {
  const affected = affectedRows === undefined ? '' : `,"affected_rows":${affectedRows}`;
  return `],"row_count":${rowCount},"columns":${columnsJson},"truncated":${truncated}${affected}`;
}

/** The memory of the rows is for other answers as soon as this one has gone out. */
export function freeWhenSent(results: readonly SqlResult[], { raw }: FastifyReply): void {
  if (!results.some(isLarge)) return;
  raw.once('finish', () => {
    for (const result of results) if (isLarge(result)) result.rows?.free();
  });
}

const isLarge = ({ rows }: SqlResult): boolean => rows?.isLarge === true;

/** In one buffer, without one for each text. */
function joined(parts: readonly (string | Buffer)[]): Buffer {
  const bytes = Buffer.allocUnsafe(parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0));
  let at = 0;
  for (const part of parts) at += typeof part === 'string' ? bytes.write(part, at) : part.copy(bytes, at);
  return bytes;
}

const CONTENT_TYPE: Readonly<Record<StreamFormat, string>> = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv; charset=utf-8; header=present',
};

/**
 * Streams the rows. An error before the first bytes is an ordinary answer; after them NDJSON ends in an error line, and
 * either format breaks the chunked encoding off, so that no client takes half a result for a whole one.
 */
export async function streamAnswer(
  { request, reply, settings }: Context,
  project: Project,
  streamRequest: Omit<StreamRequest, 'stallMs'>,
): Promise<void> {
  const { raw } = reply;
  const { format } = streamRequest;
  const begin = () => {
    if (raw.headersSent) return;
    reply.hijack();
    raw.writeHead(200, { ...allHeadersOf(request, reply), 'content-type': CONTENT_TYPE[format] });
  };
  const output = {
    write: (bytes: Buffer, free: () => void) => {
      begin();
      return raw.write(bytes, (error) => {
        if (!error) free();
      });
    },
    onDrain: (listener: () => void) => void raw.once('drain', listener),
  };
  try {
    const rowCount = await streamSql(project, { ...streamRequest, stallMs: settings.streamStallMs }, output);
    request.exchange.rows = rowCount;
    begin();
    raw.end(format === 'ndjson' ? `${JSON.stringify({ done: true, row_count: rowCount })}\n` : undefined);
  } catch (thrown) {
    if (!raw.headersSent) throw thrown;
    const error = asEngineError(thrown);
    request.exchange.errorCode = error.code;
    const line = format === 'ndjson' ? `${JSON.stringify({ error: errorBody(error, request.id) })}\n` : '';
    raw.write(line, () => raw.destroy());
  }
  // The request is over, for the log and the metrics, when its last byte has gone out or nobody takes it any more.
  raw.setTimeout(settings.streamStallMs);
  await finished(raw).catch(() => {});
}
