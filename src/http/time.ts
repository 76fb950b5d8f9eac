/** Times that a caller gives. */
import { EngineError } from '../contract/errors.js';

/**
 * A text that a schema has found to be RFC 3339, which allows leap seconds: JavaScript and Postgres do not have them.
 * @param field its name, for the message
 * @throws EngineError invalid_request
 */
export function timeOf(field: string, text: string): Date {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) throw new EngineError('invalid_request', `"${field}" is not a time that exists`);
  return time;
}
