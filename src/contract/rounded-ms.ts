/** Milliseconds, rounded as responses and logs show them. */
export const roundedMs = (ms: number): number => Math.round(ms * 100) / 100;
