/** How much of a caller's data spans contain; each level includes the previous ones. */
export const TRACE_DETAILS = ['route', 'names', 'statements'] as const;
export type TraceDetail = (typeof TRACE_DETAILS)[number];
