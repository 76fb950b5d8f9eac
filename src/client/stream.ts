/** Rows out of an NDJSON answer as they arrive; the service is held back while the caller works on one. */
import type { ErrorBody } from '../contract/wire.js';
import { aborted } from './error.js';
import { fromBody, networkError } from './transport.js';

/** Looks like the line that ends a stream. A row can look so too; it is the end only if nothing comes after it. */
const PERHAPS_THE_END = /^\{"(?:done|error)":/;

/**
 * The rows. Only a whole result ends without an error. Leaving the loop early ends the statement.
 * @throws CdpError the one that the service wrote into the stream; network_error where it broke off; aborted
 */
export async function* readRows<Row>(response: Response, signal: AbortSignal | undefined): AsyncGenerator<Row, void> {
  if (response.body === null) throw networkError('The answer has no body', undefined);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
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
          yield JSON.parse(end) as Row;
          end = undefined;
        }
        if (PERHAPS_THE_END.test(line)) {
          end = line;
        } else {
          count++;
          yield JSON.parse(line) as Row;
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
}
