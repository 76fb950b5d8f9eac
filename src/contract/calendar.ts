/** The Gregorian calendar. */

export const DAY_MS = 86_400_000;

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether the calendar has the day. */
export function isDate(year: number, month: number, day: number): boolean {
  const isLeap = month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day >= 1 && day <= (DAYS[month - 1] ?? 0) + (isLeap ? 1 : 0);
}
