/** The options in the headers of Neon's driver. */
import type { IncomingHttpHeaders } from 'node:http';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';

/** The driver's names, and Postgres's. */
const ISOLATION_LEVELS: ReadonlyMap<string, string> = new Map([
  ['ReadUncommitted', 'READ UNCOMMITTED'],
  ['ReadCommitted', 'READ COMMITTED'],
  ['RepeatableRead', 'REPEATABLE READ'],
  ['Serializable', 'SERIALIZABLE'],
]);

/** `true` or `false`; undefined: not given. @throws EngineError invalid_request */
export function booleanHeader(headers: IncomingHttpHeaders, name: string): boolean | undefined {
  const value = headers[name.toLowerCase()];
  if (value === undefined || value === 'true' || value === 'false') return value && value === 'true';
  throw new EngineError('invalid_request', `The header ${name} must be true or false`);
}

/**
 * The modes of the transaction, as BEGIN takes them (Postgres manual, BEGIN).
 * @param isReader READ ONLY, regardless of the headers
 * @throws EngineError invalid_request
 */
export function modesOf(headers: IncomingHttpHeaders, isReader: boolean): string[] {
  const level = headers['neon-batch-isolation-level'];
  const isolation = level === undefined ? undefined : ISOLATION_LEVELS.get(String(level));
  if (level !== undefined && isolation === undefined) {
    const levels = [...ISOLATION_LEVELS.keys()].join(', ');
    throw new EngineError(
      'invalid_request',
      `The header Neon-Batch-Isolation-Level must be one of ${levels}, not ${quoted(String(level))}`,
    );
  }
  const readOnly = booleanHeader(headers, 'Neon-Batch-Read-Only') === true || isReader;
  return [
    ...(isolation === undefined ? [] : [`ISOLATION LEVEL ${isolation}`]),
    ...(readOnly ? ['READ ONLY'] : []),
    ...(booleanHeader(headers, 'Neon-Batch-Deferrable') ? ['DEFERRABLE'] : []),
  ];
}
