/** The findings of `cdp doctor`: `ok`, or a fault with advice. */
import type { Finding } from '../../contract/wire/operator.js';

export const ok = (subject: string, found: string): Finding => ({ subject, health: 'ok', found, advice: null });

const wrong =
  (health: 'warning' | 'problem') =>
  (subject: string, found: string, advice: string): Finding => ({ subject, health, found, advice });
export const warning = wrong('warning');
export const problem = wrong('problem');
