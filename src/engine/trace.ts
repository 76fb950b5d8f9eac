/**
 * A traced request as the engine sees it: it says when a part of the way begins and ends, and what becomes of that is not
 * its business. Without tracing there is none, and nothing is said.
 */
export interface RequestTrace {
  /** It waits for a place in Postgres. */
  waits(): Stage;
  /** Its project's database is opened and works for it. */
  calls(): Stage;
  /** The same trace where that work is a COPY, which batches of other requests may share. */
  copying(others: readonly RequestTrace[]): RequestTrace;
}

export interface Stage {
  /** @param error undefined where it went well */
  end(error?: unknown): void;
}
