/** An error of the HTTP layer, whose answer has headers of its own (`Allow`, `WWW-Authenticate`). */
import { EngineError, type ErrorCode } from '../../contract/errors.js';

export class HttpError extends EngineError {
  constructor(
    code: ErrorCode,
    message: string,
    readonly headers: Readonly<Record<string, string>>,
    hint?: string,
  ) {
    super(code, message, hint === undefined ? {} : { hint });
  }
}
