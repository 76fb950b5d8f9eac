/**
 * What a caller may read of an error: the one rule of which fields reach which scopes (docs/errors.md). Everything that
 * sends errors to callers passes through here.
 */
import type { EngineError, ErrorDetail, PostgresDetails, Redacted } from '../../contract/errors.js';
import type { Caller } from '../../engine/access/tokens.js';

/** Who asks, as in the context of the request. */
interface ErrorRecipient {
  readonly caller: Caller | null;
  /** The operator's account on this machine; null: the request comes from elsewhere. */
  readonly account: string | null;
  /** The free SQL that the request runs; null: none. */
  readonly sql: object | null;
}

/** What the caller may read of the project by other requests. */
export type Rights = Readonly<Record<Redacted['reveals'], boolean>>;

/** An operator, who may read everything. */
export const ALL_RIGHTS: Rights = { names: true, values: true };

export const NO_RIGHTS: Rights = { names: false, values: false };

/**
 * Names of tables and columns: with `schema:read`. Values of stored rows: with `sql:write`, which may query every row; a policy
 * or a missing privilege may hide some from `sql:read`. In free SQL, Postgres itself decides what the session's role may
 * read; who may only run saved queries reads what they return.
 */
export function readRightsOf({ caller, account, sql }: ErrorRecipient): Rights {
  if (caller === null) return account === null ? NO_RIGHTS : ALL_RIGHTS;
  if (caller.project === null) return ALL_RIGHTS;
  const { scopes } = caller;
  return {
    names: scopes.has('schema:read'),
    values: scopes.has('sql:write') || (sql !== null && scopes.has('sql:read')),
  };
}

interface Texts {
  readonly message: string;
  readonly hint?: string | undefined;
}

/** The message and the hint that the caller may read. */
export function redactedTexts(
  { message, hint, redacted }: Texts & { readonly redacted?: Redacted | undefined },
  may: Rights,
): Texts {
  return redacted === undefined || may[redacted.reveals] ? { message, hint } : redacted;
}

/** The same for a place at which a request is wrong. */
export function redactedDetail({ redacted, message: full, hint: fullHint, ...detail }: ErrorDetail, may: Rights) {
  const { message, hint } = redactedTexts({ message: full, hint: fullHint, redacted }, may);
  return { ...detail, message, ...(hint === undefined ? {} : { hint }) };
}

/** Postgres's detail quotes rows. */
export function redactedPostgres(
  { postgres, isDetailGiven }: Pick<EngineError, 'postgres' | 'isDetailGiven'>,
  may: Rights,
): PostgresDetails | undefined {
  if (postgres === undefined || may.values || isDetailGiven) return postgres;
  const { detail: _, ...others } = postgres;
  return others;
}
