/** An error of the HTTP layer, with its own headers (`Allow`, `WWW-Authenticate`). */
import { EngineError, type ErrorCode } from '../../contract/errors.js';

export class HttpError extends EngineError {
  constructor(
    code: ErrorCode,
    message: string,
    readonly headers: Readonly<Record<string, string>>,
    hint?: string,
  ) {
    super(code, message, { hint });
  }
}
