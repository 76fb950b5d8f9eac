/** Formats an error for an operator, as one line. */
import { EngineError } from './errors.js';

/** Includes causes, which a caller over HTTP must not see. */
export function messageOf(error: unknown): string {
  // If every address of a host fails, Node throws an AggregateError without a message of its own.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  if (error instanceof EngineError && error.cause instanceof Error)
    return `${error.message}: ${messageOf(error.cause)}`;
  return error instanceof Error ? error.message : String(error);
}
