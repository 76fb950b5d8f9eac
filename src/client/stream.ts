/** Rows out of an NDJSON answer as they arrive; the service is held back while the caller works on one. */
import type { ErrorBody } from '../contract/wire/failure.js';
import { aborted } from './error.js';
import { fromBody, networkError } from './transport.js';

/** Looks like the line that ends a stream. A row can look so too; it is the end only if nothing comes after it. */
const PERHAPS_THE_END = /^\{"(?:done|error)":/;

/**
 * The rows, each as its JSON text; at the end the number of rows, or of rows affected where none come back. Only a whole
 * result ends without an error. Leaving the loop early ends the statement.
 * @throws CdpError the one that the service wrote into the stream; network_error where it broke off; aborted
 */
export async function* readLines(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, number, void> {
  const reader = readerOf(response);
  const cancel = () => void reader.cancel().catch(() => {});
  signal?.addEventListener('abort', cancel);
  const decoder = new TextDecoder();
  let count = 0;
  let rest = '';
  let end: string | undefined;
  let cause: unknown;
  try {
    for (;;) {
      if (signal?.aborted) throw aborted(signal);
      const chunk = await reader.read().catch((error: unknown) => void (cause = error));
      if (chunk === undefined || chunk.done) break;
      const text = decoder.decode(chunk.value, { stream: true });
      rest += text;
      if (!text.includes('\n')) continue;
      const lines = rest.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (signal?.aborted) throw aborted(signal);
        if (end !== undefined) {
          count++;
          yield end;
          end = undefined;
        }
        if (PERHAPS_THE_END.test(line)) {
          end = line;
        } else {
          count++;
          yield line;
        }
      }
    }
    if (signal?.aborted) throw aborted(signal);
  } finally {
    signal?.removeEventListener('abort', cancel);
    cancel();
  }
  const { done, row_count, error } = JSON.parse(end ?? '{}') as { done?: true; row_count?: number; error?: ErrorBody };
  const refused = error == null ? undefined : fromBody(error);
  if (refused !== undefined) throw refused;
  // Without rows it is the number of rows affected.
  const isWhole = done === true && rest === '' && (count === 0 || row_count === count);
  if (!isWhole || cause !== undefined) throw networkError(`The stream broke off after ${count} rows`, cause);
  return row_count ?? count;
}

/** The same as values. */
export async function* readRows<Row>(response: Response, signal: AbortSignal | undefined): AsyncGenerator<Row, void> {
  for await (const line of readLines(response, signal)) yield JSON.parse(line) as Row;
}

/**
 * The bytes as they come. The service breaks the chunked encoding of what is not whole, so an end is an end.
 * @throws CdpError network_error, aborted
 */
export async function* readBytes(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, void> {
  const reader = readerOf(response);
  const cancel = () => void reader.cancel().catch(() => {});
  signal?.addEventListener('abort', cancel);
  try {
    for (;;) {
      const chunk = await reader.read().catch((error: unknown) => {
        throw networkError('The stream broke off', error);
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

function readerOf(response: Response): ReadableStreamDefaultReader<Uint8Array> {
  if (response.body === null) throw networkError('The answer has no body', undefined);
  return (response.body as ReadableStream<Uint8Array>).getReader();
}
