/** An error as one line for an operator. */
import { EngineError } from './errors.js';

/** What went wrong, in words for an operator, who may know what a caller over HTTP may not. */
export function messageOf(error: unknown): string {
  // What fails at each of a host's addresses comes as one error, which has nothing to say itself.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  if (error instanceof EngineError && error.cause instanceof Error)
    return `${error.message}: ${messageOf(error.cause)}`;
  return error instanceof Error ? error.message : String(error);
}
