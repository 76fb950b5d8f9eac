/** The response of long work with progress: NDJSON that ends with the result or the error. */
import { EngineError, messageOf } from '../../contract/errors.js';
import type { Call } from '../route.js';
import { writeHead } from './response.js';
import { errorBody } from './error-exit.js';
import { ALL_RIGHTS } from './redaction.js';

interface Progress {
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
  /** Sends any other line. */
  readonly say: (line: object) => void;
}

/**
 * Sends lines of `{"progress": "…"}`, then `{"done": …}` or `{"error": …}`. The work is aborted if the client
 * disconnects.
 */
export async function progressResponse(
  { request, reply, signal }: Pick<Call, 'request' | 'reply' | 'signal'>,
  work: (reporting: Progress) => Promise<object>,
): Promise<void> {
  const { raw } = reply;
  writeHead(request, reply, 200, { 'content-type': 'application/x-ndjson' });
  const say = (line: object) => void (raw.destroyed || raw.write(`${JSON.stringify(line)}\n`));
  try {
    say({ done: await work({ signal, progress: (line) => say({ progress: line }), say }) });
  } catch (error) {
    say({ error: errorBody(forOperator(error), request.id, ALL_RIGHTS) });
  }
  raw.end();
}

/** An error with all details: an operator may see what a caller over HTTP may not. */
export function forOperator(error: unknown): EngineError {
  if (!(error instanceof EngineError)) return new EngineError('internal', messageOf(error), { cause: error });
  const { code, errors, errorCount, hint, postgres, cause } = error;
  return new EngineError(code, messageOf(error), {
    errorCount,
    cause,
    errors,
    hint,
    postgres,
  });
}
