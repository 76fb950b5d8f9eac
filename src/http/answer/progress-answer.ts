/** The answer to work that takes long and says how far it is: NDJSON, ending in a line with its result or its failure. */
import { EngineError } from '../../contract/errors.js';
import { messageOf } from '../../contract/operator-message.js';
import type { Context } from '../api/route.js';
import { allHeadersOf } from './answers.js';
import { errorBody } from './error-exit.js';

interface Progress {
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/** `{"progress": "…"}` a line, then `{"done": …}` or `{"error": …}`. The client's leaving aborts the work. */
export async function progressAnswer(
  { request, reply, signal: departure }: Pick<Context, 'request' | 'reply' | 'signal'>,
  work: (told: Progress) => Promise<object>,
): Promise<void> {
  const { raw } = reply;
  const controller = new AbortController();
  const leave = () => controller.abort(new Error('Whoever asked for it has left'));
  if (departure.aborted) leave();
  departure.addEventListener('abort', leave, { once: true });
  reply.hijack();
  raw.writeHead(200, { ...allHeadersOf(request, reply), 'content-type': 'application/x-ndjson' });
  const say = (line: object) => void (raw.destroyed || raw.write(`${JSON.stringify(line)}\n`));
  try {
    say({ done: await work({ signal: controller.signal, progress: (line) => say({ progress: line }) }) });
  } catch (error) {
    say({ error: errorBody(forOperator(error), request.id) });
  }
  raw.end();
}

/** A failure in all that is known of it: whoever may open the admin socket may know what a caller over HTTP may not. */
export function forOperator(error: unknown): EngineError {
  if (!(error instanceof EngineError)) return new EngineError('internal', messageOf(error), { cause: error });
  const { code, errors, errorCount, hint, postgres, cause } = error;
  return new EngineError(code, messageOf(error), {
    errorCount,
    cause,
    ...(errors === undefined ? {} : { errors }),
    ...(hint === undefined ? {} : { hint }),
    ...(postgres === undefined ? {} : { postgres }),
  });
}
