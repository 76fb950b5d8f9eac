/** The responses of free SQL: one JSON object around rows already encoded, or a stream of rows. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import Negotiator from 'negotiator';
import type { BufferList, OwnedBuffer } from '../../codec/index.js';
import type { SqlAnswer, SqlResult } from '../../engine/sql/sql-result.js';
import type { StreamEnd, StreamFormat, StreamRequest } from '../../engine/sql/stream-sql.js';
import { writeHead } from './response.js';
import { asEngineError, errorBody } from './error-exit.js';
import { readRightsOf } from './redaction.js';
import type { Call } from '../route.js';

/** With each parameter that a client may name; a client without a preference gets the first. */
const MEDIA_TYPES: Readonly<Record<string, StreamFormat | null>> = {
  'application/json; charset=utf-8': null,
  'application/x-ndjson; charset=utf-8': 'ndjson',
  'application/ndjson; charset=utf-8': 'ndjson',
  'text/csv; charset=utf-8; header=present': 'csv',
};

/**
 * The format that the client prefers (RFC 9110 section 12.5.1, with weights and wildcards); null: one JSON object, also
 * for a client that accepts none of them.
 */
export function streamFormat(request: IncomingMessage): StreamFormat | null {
  const { accept } = request.headers;
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return null;
  const [preferred] = new Negotiator(request).mediaTypes(Object.keys(MEDIA_TYPES));
  return MEDIA_TYPES[preferred ?? ''] ?? null;
}

/** The top level is the result of the last statement; `results` holds all if there are several. */
export function sqlResponse({ results, warnings }: SqlAnswer): string | readonly Buffer[] {
  const last = results.at(-1);
  if (last === undefined) throw new Error('Free SQL has run no statement');
  const head = headOf(last);
  const parts = [head, ...rowsOf(last), afterRows(last)];
  if (results.length > 1) {
    results.forEach((result, i) => {
      parts.push(`${i > 0 ? '},{' : ',"results":[{'}${beforeRows(result)}`, ...rowsOf(result), afterRows(result));
    });
    parts.push('}]');
  }
  if (warnings.length > 0) parts.push(`,"warnings":${JSON.stringify(warnings)}`);
  parts.push('}');
  return joinedParts(parts);
}

export type Part = string | Buffer;

const SHORT_BYTES = 32 * 1024;

/** Joins short JSON to a text, which Node sends in one piece with the head; long JSON stays in its buffers. */
export function joinedParts(parts: readonly Part[]): string | readonly Buffer[] {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  if (length <= SHORT_BYTES) return parts.map(String).join('');
  return parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
}

const headOf = (result: SqlResult): string => `{"success":true,${beforeRows(result)}`;

const beforeRows = ({ type }: SqlResult): string => `"type":${JSON.stringify(type)},"rows":[`;

const rowsOf = ({ rows }: SqlResult): Part[] => (rows === null ? [] : withoutFirstComma(rows));

export const withoutFirstComma = ({ buffers }: BufferList): Buffer[] =>
  buffers.map((bytes, i) => (i === 0 ? bytes.subarray(1) : bytes));

function afterRows({ rowCount, columnsJson, truncated, affectedRows }: SqlResult): string {
  const affected = affectedRows === undefined ? '' : `,"affected_rows":${affectedRows}`;
  return `],"row_count":${rowCount},"columns":${columnsJson},"truncated":${truncated}${affected}`;
}

const CONTENT_TYPE: Readonly<Record<StreamFormat, string>> = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv; charset=utf-8; header=present',
};

/**
 * Streams the rows. @param run writes them, and returns their end. An error before the first bytes is an ordinary response. Later, NDJSON ends with an error line, and
 * both formats break off the chunked encoding, so that no client takes half a result for a whole one.
 */
export async function streamResponse(
  { request, reply }: Call,
  { format, columns }: Pick<StreamRequest, 'format' | 'columns'>,
  run: (write: (chunk: OwnedBuffer) => Promise<void> | undefined) => Promise<StreamEnd>,
): Promise<void> {
  const { raw } = reply;
  const { context } = request;
  const begin = () => {
    if (raw.headersSent) return;
    writeHead(request, reply, 200, { 'content-type': CONTENT_TYPE[format] });
  };
  const write = (chunk: OwnedBuffer) => {
    begin();
    const hasRoom = raw.write(chunk.bytes, (error) => {
      if (!error) chunk.free();
    });
    return hasRoom || raw.destroyed ? undefined : drained(raw, context.stallMs);
  };
  try {
    const { rowCount, type, warnings } = await run(write);
    context.rows = rowCount;
    context.moved = { in: 0, out: rowCount };
    begin();
    const more = { ...(columns ? { type } : {}), ...(warnings.length > 0 ? { warnings } : {}) };
    const end = { done: true, row_count: rowCount, ...more };
    raw.end(format === 'ndjson' ? `${JSON.stringify(end)}\n` : undefined);
  } catch (thrown) {
    if (!raw.headersSent) throw thrown;
    const error = asEngineError(thrown);
    context.errorCode = error.code;
    const line =
      format === 'ndjson' ? `${JSON.stringify({ error: errorBody(error, request.id, readRightsOf(context)) })}\n` : '';
    raw.write(line, () => raw.destroy());
  }
  // For the log and metrics, the request ends when its last byte has been sent or the client has disconnected.
  raw.setTimeout(context.stallMs);
  // The client left, or did not read: the connection is closed.
  await finished(raw).catch(() => {});
}

/**
 * Resolves when more may be written, or the client has left: Postgres's reply to the canceled statement must still be
 * read. A client that reads nothing for `stallMs` is disconnected.
 */
export function drained(raw: ServerResponse, stallMs: number): Promise<void> {
  raw.setTimeout(stallMs);
  return new Promise((resolve) => {
    const done = () => {
      raw.off('drain', done).off('close', done);
      raw.setTimeout(0);
      resolve();
    };
    raw.once('drain', done).once('close', done);
  });
}
