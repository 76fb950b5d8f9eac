/** What lists of tokens say about a token. */
import { DEFAULT_SCOPES } from '../../../src/contract/names.js';
import type { Token } from '../../../src/contract/wire/tokens.js';
import { ago, day } from './formats.js';

export const scopesOf = ({ scopes }: Token): string =>
  DEFAULT_SCOPES.every((scope) => scopes.includes(scope)) ? 'all scopes' : scopes.join(', ');

/** What narrows it; '' if nothing does. */
export function limitsOf({ limits }: Token): string {
  if (limits === null) return '';
  const { tables, origins, users, ...rates } = limits;
  return [
    ...(tables === null ? [] : [`only into ${tables.join(', ')}`]),
    ...(origins === null ? [] : [`pages of ${origins.join(', ')}`]),
    ...Object.entries(rates).flatMap(([name, most]) =>
      most === null ? [] : [`${most} ${name.replace('_per_', ' a ')}`],
    ),
    ...(users === 'off' ? ['not users and accounts'] : []),
  ].join('; ');
}

export function stateOf({ revoked_at, expires_at }: Token): 'good' | 'revoked' | 'expired' {
  if (revoked_at !== null) return 'revoked';
  return expires_at !== null && Date.parse(expires_at) <= Date.now() ? 'expired' : 'good';
}

export function endOf(token: Token): string {
  const state = stateOf(token);
  if (state !== 'good') return state;
  return token.expires_at === null ? 'never' : day(token.expires_at);
}

export const lastUseOf = ({ last_used_at: at }: Token): string => (at === null ? 'never' : ago(Date.parse(at)));
