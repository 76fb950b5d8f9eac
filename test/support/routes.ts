/** For sweeps over all operations of the API. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Operation } from '../../src/http/api/operation.js';
import type { TestResponse } from './service.js';

/** For `describe.each`: the title of an operation, and the operation. */
export const titled = (operations: readonly Operation[]): [string, Operation][] =>
  operations.map((operation) => [`${operation.method} ${operation.url}`, operation]);

/**
 * The route's path with names in place of its parameters, and the query that it needs; nothing named exists in a new
 * project.
 */
export function pathOf(
  { url, query }: Pick<Operation, 'url' | 'query'>,
  names: Readonly<Record<string, string>> = {},
): string {
  const needed = ((query?.required ?? []) as string[]).map((name) => `${name}=id`);
  const all: Record<string, string> = { table_name: 'customers', column_name: 'country', call: 'batch', ...names };
  const path = url.replace(/:(\w+)/g, (_, name: string) => all[name] ?? (name === 'project' ? 'nobody' : randomUUID()));
  return needed.length === 0 || names.query !== undefined ? path : `${path}?${needed.join('&')}`;
}

/** Files, stack traces, and names of databases and roles, which no failure may show (contract C2.6). */
const INNER =
  /\/(?:src|dist|node_modules|work|home|tmp|usr)\/|\bat \S+ \(|node:internal|\.[jt]s:\d+|\b[dwr]_[0-9a-f]{20}\b|cdp_template|cdp_service|\bcontrol_\d/;

/** What every response under /api/cdp must have (contract C1.10, C1.11, C2.6). */
export function checkResponse(response: TestResponse): void {
  expect(response.headers.get('x-request-id')).toMatch(/^[\w.:/+=-]{1,128}$/);
  expect(response.headers.get('server-timing')).toMatch(/^(?:\w+;dur=\d+(?:\.\d+)?(?:, )?)+$/);
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(response.headers.get('content-type')).toMatch(/^application\/(?:json|x-ndjson)\b/);
  if (response.status >= 400) expect(response.text).not.toMatch(INNER);
}
