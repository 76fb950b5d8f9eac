/**
 * A Postgres that takes no logins: nobody listens, or it starts, recovers or stops. Then one login is tried in a while for
 * all who want one, and the others are told what became of it: each try costs a recovering server a process, and a try
 * by every request keeps it from getting up.
 */
import pg from 'pg';
import { EngineError } from '../contract/errors.js';
import { PostgresError } from '../postgres/errors.js';
import { CANNOT_CONNECT_NOW } from '../postgres/sqlstate.js';

const AWAY_MS = 100;

export class Absence {
  /** What the last login was refused with that Postgres was not there for. */
  private last: { readonly error: Error; readonly until: number } | null = null;

  /** What a login need not be tried to be told; null: it may be tried. */
  get refusal(): Error | null {
    return this.last !== null && performance.now() < this.last.until ? this.last.error : null;
  }

  /** @param error of a login that failed, whatever of */
  saw(error: unknown): void {
    if (error instanceof Error && isAway(error)) this.last = { error, until: performance.now() + AWAY_MS };
  }
}

/** Postgres takes no logins, or nobody is at the address. */
function isAway(error: Error): boolean {
  const cause = error instanceof EngineError ? error.cause : error;
  if (cause instanceof PostgresError) return cause.sqlstate === CANNOT_CONNECT_NOW;
  const code = (cause as { code?: unknown } | undefined)?.code;
  if (cause instanceof pg.DatabaseError) return code === CANNOT_CONNECT_NOW;
  return code === 'ECONNREFUSED' || code === 'ENOENT';
}
