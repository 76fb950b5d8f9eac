/** Milliseconds, rounded as answers and logs show them. */
export const roundedMs = (ms: number): number => Math.round(ms * 100) / 100;
