/** Which statements may take rights from the project's own roles, or change how they log in. */
import { visibleTokens } from './main-keyword.js';

/** By their first words; what a DO or a CALL runs, nobody sees. A function may do the same, and shows at the first refusal. */
const FIRST = new Set(['GRANT', 'REVOKE', 'REASSIGN', 'DO', 'CALL']);
const FIRST_TWO = new Set(['DROP OWNED', 'ALTER DEFAULT', 'ALTER ROLE', 'ALTER USER', 'ALTER GROUP']);

export function mayChangeRights(text: string): boolean {
  const tokens = visibleTokens(text);
  const first: string = tokens.next().value ?? '';
  return FIRST.has(first) || FIRST_TWO.has(`${first} ${tokens.next().value ?? ''}`);
}
