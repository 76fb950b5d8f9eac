/** Rows of a streamed answer as they arrive. While the caller works on one, the service has to wait. */
import type { ErrorBody } from '../contract/wire/failure.js';
import { aborted, CdpError } from './error.js';
import { fromBody, networkError } from './transport.js';

/** The last line looks like this. So may a row: only if nothing follows is it the last line. */
const MAYBE_LAST = /^\{"(?:done|error)":/;

/**
 * The rows of an NDJSON answer, each as its JSON text. Ends without an error only if the result is complete. Leaving the
 * loop early cancels the statement.
 * @returns the number of rows, or of rows affected if the statement returns none
 * @throws CdpError the error that the service wrote into the stream; network_error if the stream broke off; aborted
 */
export async function* readLines(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, number, void> {
  let count = 0;
  let last: string | undefined;
  let cause: unknown;
  try {
    for await (const lines of linesIn(readBytes(response, signal))) {
      for (const line of lines) {
        if (signal?.aborted) throw aborted(signal);
        if (last !== undefined) {
          count++;
          yield last;
          last = undefined;
        }
        if (MAYBE_LAST.test(line)) {
          last = line;
        } else {
          count++;
          yield line;
        }
      }
    }
  } catch (error) {
    // The service may have written why before the connection broke.
    if (!(error instanceof CdpError) || error.code !== 'network_error') throw error;
    cause = error;
  }
  const { done, row_count, error } = JSON.parse(last ?? '{}') as { done?: true; row_count?: number; error?: ErrorBody };
  const failure = fromBody(error ?? null);
  if (failure !== undefined) throw failure;
  const isComplete = cause === undefined && done === true && (count === 0 || row_count === count);
  if (!isComplete) throw networkError(`The stream was interrupted after ${count} rows`, cause);
  return row_count ?? count;
}

/** The complete lines of each chunk. @throws CdpError network_error if the last line is not complete */
async function* linesIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string[], void> {
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

/** The rows as values. */
export async function* readRows<Row>(response: Response, signal: AbortSignal | undefined): AsyncGenerator<Row, void> {
  for await (const line of readLines(response, signal)) yield JSON.parse(line) as Row;
}

/**
 * The bytes as they arrive. If the result is not complete, the service breaks the chunked encoding, so the end is the end.
 * @throws CdpError network_error, aborted
 */
export async function* readBytes(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, void> {
  if (response.body === null) throw networkError('The response has no body', undefined);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
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
