/** Formats times for people, in their time zone. */
const DAY = { day: 'numeric', month: 'short' } as const;
const TIME = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;

export const day = (time: string): string => new Date(time).toLocaleDateString('en', { ...DAY, year: 'numeric' });

export const dayAndTime = (time: string): string => new Date(time).toLocaleString('en', { ...DAY, ...TIME });
