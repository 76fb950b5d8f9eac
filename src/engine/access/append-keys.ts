/**
 * Keys that may be public, such as in a web page: tokens with `data:append` alone, narrowed to tables, origins and rates
 * (docs/security.md, "What a leaked key can do").
 */
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { Scope } from '../../contract/names.js';
import type { NewTokenLimits, TokenLimits } from '../../contract/wire/token-limits.js';
import type { Caller } from './tokens.js';

/** Whether the caller may insert, and learns nothing from that. */
export const appendsOnly = ({ scopes }: Pick<Caller, 'scopes'>): boolean =>
  scopes.has('data:append') && !scopes.has('data:write');

/**
 * The limits of a new token; null: none.
 * @throws EngineError invalid_request naming every wrong place
 */
export function limitsOf(scopes: readonly Scope[] | undefined, wanted: NewTokenLimits | undefined): TokenLimits | null {
  if (wanted === undefined) return null;
  const errors = new ErrorCollector();
  const wrong = (message: string) => errors.add('invalid_request', () => ({ message }));
  // Whatever else such a token might do, the limits would not hold for it.
  if (scopes?.join() !== 'data:append') wrong('body.limits narrows only a token whose only scope is data:append');
  for (const [i, origin] of (wanted.origins ?? []).entries()) {
    const asSent = URL.canParse(origin) ? new URL(origin).origin : null;
    if (asSent !== origin)
      wrong(`body.limits.origins.${i} must be as browsers send it${asSent === null ? '' : `: ${asSent}`}`);
  }
  errors.throwIfAny();
  return {
    tables: wanted.tables ?? null,
    origins: wanted.origins ?? null,
    requests_per_second: wanted.requests_per_second ?? null,
    requests_per_day: wanted.requests_per_day ?? null,
    rows_per_second: wanted.rows_per_second ?? null,
    rows_per_day: wanted.rows_per_day ?? null,
    users: wanted.users ?? (wanted.origins == null ? null : 'off'),
  };
}

/** @throws EngineError origin_not_allowed */
export function requireOrigin({ limits }: Caller, origin: string): void {
  if (limits?.origins == null || limits.origins.includes(origin)) return;
  throw new EngineError('origin_not_allowed', 'The token may not be used by pages of this origin');
}

export const mayInsertInto = ({ limits }: Caller, table: string): boolean =>
  limits?.tables == null || limits.tables.includes(table);

/** @throws EngineError insufficient_scope */
export function requireTable(caller: Caller, table: string): void {
  if (mayInsertInto(caller, table)) return;
  const tables = caller.limits?.tables ?? [];
  throw new EngineError(
    'insufficient_scope',
    `The token may not insert into ${quoted(table)}, only into ${tables.map((name) => quoted(name)).join(', ')}`,
  );
}
