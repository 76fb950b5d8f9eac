/** What `cdp doctor` found: all is well, or not and what to do. */
import type { Finding } from '../../contract/wire/operator.js';

export const ok = (subject: string, found: string): Finding => ({ subject, health: 'ok', found, advice: null });

const wrong =
  (health: 'warning' | 'problem') =>
  (subject: string, found: string, advice: string): Finding => ({ subject, health, found, advice });
export const warning = wrong('warning');
export const problem = wrong('problem');
