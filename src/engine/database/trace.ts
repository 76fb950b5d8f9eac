/** Tracing of a request as the engine sees it: the engine reports when a stage begins and ends. */
export interface RequestTrace {
  /** The request waits for a slot. */
  waits(): Stage;
  /** The request uses its project's database. */
  calls(): Stage;
  /** The same trace for a COPY that batches of other requests may share. */
  copying(others: readonly RequestTrace[]): RequestTrace;
}

export interface Stage {
  /** @param error undefined: success */
  end(error?: unknown): void;
}
