/** Calls about what a project saves by name: queries, schedules and segments. */
import { NAME_PATTERN, SAVED_NAME_PATTERN } from '../contract/names.js';
import type { RunQueryBody } from '../contract/wire/queries.js';
import { CdpError } from './error.js';
import { toJson } from './json.js';
import { CALL_NAMES, type CallOptions, checkOptions, READ_NAMES } from './options.js';
import type { ApiCall } from './transport.js';

export interface RunQueryOptions extends Omit<RunQueryBody, 'parameters'>, CallOptions {}

/**
 * Only what says what should be, not what should happen, is sent again after a failure.
 * @param path such as `['schedules', 'nightly', 'run']`
 */
export function savedCall(
  method: ApiCall['method'],
  [kind = '', name, action]: readonly string[],
  body: object | undefined,
  options: CallOptions = {},
): ApiCall {
  checkOptions(options, action === 'run' ? CALL_NAMES : READ_NAMES, `a call about ${kind}`);
  const path = ['/api/cdp', kind, ...(name === undefined ? [] : [checked(name, SAVED_NAME_PATTERN)])];
  if (action !== undefined) path.push(action);
  return {
    method,
    path: path.join('/') + (options.dryRun ? '?dry_run=true' : ''),
    ...(body === undefined ? {} : { body: toJson(body) }),
    idempotent: method === 'GET' || method === 'PUT',
    signal: options.signal,
  };
}

export function runQueryCall(
  name: string,
  parameters: Readonly<Record<string, unknown>>,
  { signal, dryRun, ...options }: RunQueryOptions = {},
): ApiCall {
  const calls = { ...(signal && { signal }), ...(dryRun && { dryRun }) };
  return savedCall('POST', ['queries', name, 'run'], { parameters, ...options }, calls);
}

export const inPath = (name: string): string => checked(name, NAME_PATTERN);

/** @throws CdpError invalid_name: `..` would lead to another path */
function checked(name: string, pattern: string): string {
  if (!new RegExp(pattern).test(name))
    throw new CdpError('invalid_name', `${JSON.stringify(name)} does not match ${pattern}`);
  return name;
}
