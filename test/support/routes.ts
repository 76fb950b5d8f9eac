/** Every route of the service from its tables, for sweeps over all routes. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { ADMIN_ROUTES } from '../../src/http/api/routes.js';
import type { Route } from '../../src/http/api/route.js';
import { ROUTES } from '../../src/http/api/routes.js';
import type { TestResponse } from './service.js';

export const ALL_ROUTES: readonly Route[] = [...ROUTES, ...ADMIN_ROUTES];

/** For `describe.each`: the title of a route, and the route. */
export const titled = (routes: readonly Route[]): [string, Route][] =>
  routes.map((route) => [`${route.method} ${route.url}`, route]);

/**
 * The route's path with names in place of its parameters, and the query that it needs; nothing named exists in a new
 * project.
 */
export function pathOf(
  { url, query }: Pick<Route, 'url' | 'query'>,
  names: Readonly<Record<string, string>> = {},
): string {
  const needed = ((query?.required ?? []) as string[]).map((name) => `${name}=id`);
  const all: Record<string, string> = { table_name: 'customers', column_name: 'country', ...names };
  const path = url.replace(/:(\w+)/g, (_, name: string) => all[name] ?? (name === 'project' ? 'nobody' : randomUUID()));
  return needed.length === 0 || names.query !== undefined ? path : `${path}?${needed.join('&')}`;
}

/** Files, stack traces, and names of databases and roles, which no failure may show (contract section 1). */
const INNER =
  /\/(?:src|dist|node_modules|work|home|tmp|usr)\/|\bat \S+ \(|node:internal|\.[jt]s:\d+|\b[dwr]_[0-9a-f]{20}\b|cdp_template|cdp_service|\bcontrol_\d/;

/** What the contract promises of every single response under /api/cdp. */
export function checkResponse(response: TestResponse): void {
  expect(response.headers.get('x-request-id')).toMatch(/^[\w.:/+=-]{1,128}$/);
  expect(response.headers.get('server-timing')).toMatch(/^(?:\w+;dur=\d+(?:\.\d+)?(?:, )?)+$/);
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(response.headers.get('content-type')).toMatch(/^application\/json\b/);
  if (response.status >= 400) expect(response.text).not.toMatch(INNER);
}
