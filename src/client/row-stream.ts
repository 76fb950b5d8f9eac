/** Reads the rows of a streamed response as they arrive. While the caller processes a row, the service waits. */
import type { ErrorBody } from '../contract/wire/failure.js';
import type { Warning } from '../contract/wire/sql.js';
import { aborted, CdpError } from './error.js';
import { fromBody, networkError } from './transport.js';

/** The last line begins like this. A row may, too, but only the last line has nothing after it. */
const MAYBE_LAST = /^\{"(?:done|error)":/;

export interface StreamEnd {
  /** The number of rows, or of affected rows if the statement returns none. */
  readonly row_count: number;
  /** Postgres's command tag without its counts, if the stream began with its columns. */
  readonly type?: string;
  /** Postgres's warnings; absent if there are none. */
  readonly warnings?: readonly Warning[];
}

/** Rows as JSON texts of arrays, and the columns of their elements. */
export interface ArrayStream {
  /** The type is null if it is not built into Postgres; its values are then text. */
  readonly columns: { name: string; type: string | null }[];
  /** Each batch contains all rows that have arrived. Leaving the loop early cancels the statement. */
  readonly batches: AsyncGenerator<string[], StreamEnd, void>;
}

/** @throws CdpError as {@link readBatches}, from `batches` too */
export async function readArrays(response: Response, signal: AbortSignal | undefined): Promise<ArrayStream> {
  const { first, batches } = await readHeaded(response, signal);
  return { ...(JSON.parse(first) as Pick<ArrayStream, 'columns'>), batches };
}

/**
 * Reads the first line, which says what the rows after it are.
 * @throws CdpError as {@link readBatches}, from `batches` too
 */
export async function readHeaded(
  response: Response,
  signal: AbortSignal | undefined,
): Promise<Pick<ArrayStream, 'batches'> & { first: string }> {
  const batches = readBatches(response, signal, 1);
  const { value } = await batches.next();
  // A stream without a first line also lacks its last one, so it was interrupted: `readBatches` has thrown.
  const [first = '', ...rows] = value as string[];
  const rest = async function* () {
    if (rows.length > 0) yield rows;
    return yield* batches;
  };
  return { first, batches: rest() };
}

/**
 * Yields the rows of an NDJSON response as JSON text. Leaving the loop early cancels the statement.
 * @param before the number of first lines that are not rows
 * @param onEnd called with the last line
 * @returns the number of rows, or of affected rows if the statement returns none
 * @throws CdpError as {@link readBatches}
 */
export async function* readLines(
  response: Response,
  signal: AbortSignal | undefined,
  before = 0,
  onEnd?: (end: StreamEnd) => void,
): AsyncGenerator<string, number, void> {
  const batches = readBatches(response, signal, before);
  try {
    for (;;) {
      const batch = await batches.next();
      if (batch.done) {
        onEnd?.(batch.value);
        return batch.value.row_count;
      }
      for (const line of batch.value) {
        if (signal?.aborted) throw aborted(signal);
        yield line;
      }
    }
  } finally {
    await batches.return({ row_count: 0 });
  }
}

/**
 * Ends without an error only if the result is complete.
 * @param before the number of first lines that are not rows
 * @throws CdpError the error that the service wrote into the stream; network_error if the stream was interrupted;
 * aborted
 */
async function* readBatches(
  response: Response,
  signal: AbortSignal | undefined,
  before = 0,
): AsyncGenerator<string[], StreamEnd, void> {
  let count = -before;
  let last: string | undefined;
  let cause: unknown;
  try {
    for await (const lines of linesIn(readBytes(response, signal))) {
      if (last !== undefined) lines.unshift(last);
      last = MAYBE_LAST.test(lines.at(-1) ?? '') ? lines.pop() : undefined;
      count += lines.length;
      if (lines.length > 0) yield lines;
    }
  } catch (error) {
    // The service may have written the reason before the connection was lost.
    if (!(error instanceof CdpError) || error.code !== 'network_error') throw error;
    cause = error;
  }
  const { done, row_count, type, warnings, error } = JSON.parse(last ?? '{}') as Partial<StreamEnd> & Last;
  const failure = fromBody(error ?? null);
  if (failure !== undefined) throw failure;
  const isComplete = cause === undefined && done === true && (count === 0 || row_count === count);
  if (!isComplete) throw networkError(`The stream was interrupted after ${Math.max(0, count)} rows`, cause);
  return {
    row_count: row_count ?? count,
    ...(type === undefined ? {} : { type }),
    ...(warnings === undefined ? {} : { warnings }),
  };
}

interface Last {
  done?: true;
  error?: ErrorBody;
}

/**
 * Yields the complete lines of each chunk.
 * @throws CdpError network_error if the last line is incomplete
 */
export async function* linesIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string[], void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    rest += text;
    if (!text.includes('\n')) continue;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    yield lines;
  }
  if (rest !== '') throw networkError('The last line is incomplete', undefined);
}

export async function* readRows<Row>(response: Response, signal: AbortSignal | undefined): AsyncGenerator<Row, void> {
  for await (const line of readLines(response, signal)) yield JSON.parse(line) as Row;
}

/**
 * Yields the bytes as they arrive. If the result is incomplete, the service breaks the chunked encoding, so after a
 * clean end the result is complete.
 * @throws CdpError network_error, aborted
 */
export async function* readBytes(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, void> {
  if (response.body === null) throw networkError('The response has no body', undefined);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  // The reader of the stream gets its error.
  const cancel = () => void reader.cancel().catch(() => {});
  signal?.addEventListener('abort', cancel);
  try {
    for (;;) {
      if (signal?.aborted) throw aborted(signal);
      const chunk = await reader.read().catch((error: unknown) => {
        throw signal?.aborted ? aborted(signal) : networkError('The stream was interrupted', error);
      });
      if (signal?.aborted) throw aborted(signal);
      if (chunk.done) return;
      yield chunk.value;
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
    cancel();
  }
}
