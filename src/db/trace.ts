/** Tracing of a request as the engine sees it: the engine reports when a stage begins and ends. */
export interface RequestTrace {
  /** The request waits for a slot, or its batch for a COPY. */
  startWait(): ChildSpan;
  /** The request uses its project's database. */
  startCall(): ChildSpan;
  /** The same trace for a COPY that batches of other requests may share. */
  forCopy(others: readonly RequestTrace[]): RequestTrace;
}

export interface ChildSpan {
  /** @param error undefined: success */
  end(error?: unknown): void;
}
