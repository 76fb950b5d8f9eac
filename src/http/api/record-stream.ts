/** The insert of a stream: its body, its limits, and its response with progress. */
import { createGunzip } from 'node:zlib';
import { pipeline } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { EngineError, type StoredPart } from '../../contract/errors.js';
import type { BatchQuery, BatchResponse } from '../../contract/wire/batch.js';
import { appendStreamsInto, checkKey, type IdempotencyKey, keyOfHash, streamsInto } from '../../db/idempotency.js';
import { streamKey } from '../../db/stream-keys.js';
import { appendsOnly } from '../../engine/access/append-keys.js';
import { type AtomicRequest, storeAtomically } from '../../engine/insert/stream/store-atomic.js';
import { storeStream } from '../../engine/insert/stream/store-stream.js';
import type { StreamFormat } from '../../engine/insert/stream/formats.js';
import { PiecesOfBody } from '../body.js';
import { asEngineError, errorBody } from '../response/error-exit.js';
import { readRightsOf, redactedDetail } from '../response/redaction.js';
import { writeHead } from '../response/response.js';
import type { Call, RouteResponse } from '../route.js';
import { projectOf, tableInPath } from './call-inputs.js';
import type { UnknownRule } from '../../engine/insert/unknown-fields.js';
import type { UpsertRule } from '../../engine/insert/upsert.js';

const NDJSON = 'application/x-ndjson';

/** Lines of progress are not more frequent. */
const PROGRESS_MS = 500;

/** How the records of a body are stored, apart from its format. */
export interface Storing {
  readonly upsert: UpsertRule | null;
  readonly unknown: UnknownRule | undefined;
  readonly quarantine: boolean;
  /** The query in canonical form. */
  readonly queryText: string;
}

/** @throws EngineError; once lines of progress have been sent, the last line has it */
export async function insertStream(
  call: Call,
  { upsert, unknown, quarantine, queryText }: Storing,
): Promise<RouteResponse> {
  const { request, engine, settings, signal, caller } = call;
  const { context } = request;
  const query = request.query as BatchQuery;
  const tableName = tableInPath(call);
  const project = projectOf(call);
  refuseForStreams(call, query);
  const format = formatOf(request, query);
  const kind = [queryText, JSON.stringify(format)].join('\0');
  const appends = appendsOnly(caller);
  const isAtomic = query.atomic !== undefined;
  const body = new PiecesOfBody(request.raw, settings.requestTimeoutMs);
  const progress = acceptsLines(request) ? new ProgressLines(call) : null;
  const reserved = context.reservation;
  try {
    const { tableCache, throttle, quarantineDays, spools } = engine.services;
    const common = {
      ...{ project, tableName, tableCache, throttle, format, upsert, unknown, signal },
      bytes: decodedPieces(request, body),
      onReady: () => context.askForBody(),
      reserve: async (bytes: number) => reserved?.extend(bytes, project.forNextChunk().waitBudget, signal),
    };
    const { response, replayed, newRows } = isAtomic
      ? await storeAtomically({ ...common, spools, keyOf: keyOfBody(call, tableName, kind) })
      : await storeStream({
          ...{ ...common, quarantine, quarantineDays },
          key: keyOfStream(call, tableName, kind),
          offset: Number(query.offset ?? 0),
          countAppended: appends ? (records) => engine.appendRates.count(caller, 'rows', records) : null,
          onProgress: (stored, newRows) => {
            // Also if a later chunk is refused.
            context.moved = { in: newRows, out: 0 };
            progress?.say(stored);
          },
        });
    const { errors } = response as BatchResponse;
    const answer =
      errors === undefined
        ? response
        : { ...response, errors: errors.map((detail) => redactedDetail(detail, readRightsOf(context))) };
    const status = appends ? 202 : 201;
    if (progress === null) return { status, body: answer, rows: newRows, replayed };
    progress.end(status, { done: answer });
    return { body: null, rows: newRows, replayed };
  } catch (error) {
    if (!progress?.hasBegun) throw error;
    const known = asEngineError(error);
    context.errorCode = known.code;
    progress.end(200, { error: errorBody(known, request.id, readRightsOf(context)) });
    return { body: null };
  } finally {
    body.discard();
  }
}

/** The key under which chunks are stored; null: none. @throws EngineError invalid_request */
function keyOfStream({ request, settings, caller }: Call, tableName: string, kind: string): IdempotencyKey | null {
  const { 'idempotency-key': text } = request.headers;
  if (text === undefined) return null;
  // Keys of others would tell what they have sent.
  const namespace = appendsOnly(caller) ? appendStreamsInto(tableName, caller.id) : streamsInto(tableName);
  return streamKey(String(text), namespace, kind, settings.receiptDays);
}

/** The key of an atomic stream, which is that of a batch; null: none. @throws EngineError invalid_request */
function keyOfBody({ request, settings }: Call, tableName: string, kind: string): AtomicRequest['keyOf'] {
  const { 'idempotency-key': text } = request.headers;
  if (text === undefined) return null;
  checkKey(String(text));
  return (sha256) => keyOfHash(String(text), tableName, kind, sha256, settings.receiptDays);
}

/** Errors of a stream may come after its response has begun; so they are in its last line. */
class ProgressLines {
  hasBegun = false;
  private saidAt = performance.now();

  constructor(private readonly call: Call) {}

  /** Says nothing to a client that has not read the last line: it may read only when it has sent everything. */
  say({ rows, bytes }: StoredPart): void {
    const now = performance.now();
    if (now - this.saidAt < PROGRESS_MS || this.call.reply.raw.writableNeedDrain) return;
    this.saidAt = now;
    this.write(appendsOnly(this.call.caller) ? 202 : 201, { progress: { rows, bytes } });
  }

  end(status: number, line: object): void {
    this.write(status, line);
    this.call.reply.raw.end();
  }

  private write(status: number, line: object): void {
    const { request, reply } = this.call;
    if (!this.hasBegun) writeHead(request, reply, status, { 'content-type': NDJSON });
    this.hasBegun = true;
    if (!reply.raw.destroyed) reply.raw.write(`${JSON.stringify(line)}\n`);
  }
}

const acceptsLines = ({ headers }: FastifyRequest): boolean =>
  new Negotiator({ headers }).mediaType(['application/json', NDJSON]) === NDJSON;

/** @throws EngineError invalid_request */
function refuseForStreams({ request }: Call, query: BatchQuery): void {
  const refused = query.return !== undefined ? 'return' : request.context.project?.dryRun ? 'dry_run' : null;
  if (refused !== null) {
    throw new EngineError('invalid_request', `\`${refused}\` is for batches: a stream does not support it`, {
      hint: 'Send a JSON array of at most 250 records.',
    });
  }
  const [other] = query.atomic === undefined ? [] : (['on_error', 'offset'] as const).filter((name) => query[name]);
  if (other === undefined) return;
  const message =
    other === 'offset'
      ? '`atomic` cannot be combined with `offset`: nothing is stored before the end'
      : '`atomic` cannot be combined with `on_error`: it stores all records or none';
  throw new EngineError('invalid_request', message);
}

/** @throws EngineError invalid_request, unsupported_media_type */
function formatOf({ headers }: FastifyRequest, { delimiter, null: nulls }: BatchQuery): StreamFormat {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').toLowerCase().split(';');
  const charset = parameters.map((text) => text.trim()).find((text) => text.startsWith('charset='));
  if (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset)) {
    throw new EngineError('unsupported_media_type', 'A stream must be in UTF-8');
  }
  const isCells = type.trim() !== NDJSON;
  if (!isCells && (delimiter !== undefined || nulls !== undefined)) {
    throw new EngineError('invalid_request', '`delimiter` and `null` are for delimited text');
  }
  if (!isCells) return { kind: 'ndjson' };
  const isTabs = type.trim() === 'text/tab-separated-values';
  if (delimiter !== undefined && (isTabs || !/^[\t\x20-\x7e]$/.test(delimiter) || delimiter === '"')) {
    throw new EngineError('invalid_request', '`delimiter` must be one ASCII character, and is for text/csv');
  }
  return {
    kind: 'delimited',
    delimiter: isTabs ? '\t' : (delimiter ?? ','),
    nulls: nulls === undefined ? [] : [nulls],
  };
}

/** @throws EngineError unsupported_media_type; its pieces: invalid_request */
function decodedPieces({ headers }: FastifyRequest, body: PiecesOfBody): Pick<AsyncIterator<Buffer>, 'next'> {
  const encoding = (headers['content-encoding'] ?? 'identity').toLowerCase();
  if (encoding === 'identity') return body;
  if (encoding !== 'gzip') {
    throw new EngineError('unsupported_media_type', 'The Content-Encoding must be gzip or identity');
  }
  return unpacked(body);
}

async function* unpacked(body: PiecesOfBody): AsyncGenerator<Buffer, void> {
  const gunzip = createGunzip();
  // Whoever reads from it gets the error.
  pipeline(piecesOf(body), gunzip, () => {});
  try {
    for await (const piece of gunzip) yield piece as Buffer;
  } catch (error) {
    if (error instanceof EngineError) throw error;
    const isCut = (error as NodeJS.ErrnoException).code === 'Z_BUF_ERROR';
    throw new EngineError(
      'invalid_request',
      isCut ? 'The gzip of the body ends too early' : 'The body is not gzip, although Content-Encoding says so',
      { cause: error },
    );
  }
}

async function* piecesOf(body: PiecesOfBody): AsyncGenerator<Buffer, void> {
  for (let next = await body.next(); !next.done; next = await body.next()) yield next.value;
}
